#include "lb/autoscale_options.h"

#include <string>
#include <vector>

#include "lb/option_changes.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using Words = std::vector<std::string>;

// The error of these words on the command line, or the options in `out`.
std::string load(Words words, Options& out) {
  words.insert(words.begin(), "lb");
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const char* const nothing[] = {nullptr};
  const auto loaded =
      load_options(kOptionTable, out, static_cast<int>(arguments.size()), arguments.data(), nothing);
  if (!loaded) return loaded.error().text;
  const auto finished = finish_options(*loaded, out);
  return finished ? "" : finished.error().text;
}

std::string error_of(const Words& words) {
  Options options;
  return load(words, options);
}

const std::string kCommand = "--autoscale-command=server --at {port} --name={id}";

TEST_CASE("a command is split at blanks, and what stands in quotes is one word") {
  CHECK(*split_command("  a  b\tc ") == Words{"a", "b", "c"});
  CHECK(*split_command("a 'b c' \"d 'e\" f'g'h ''") == Words{"a", "b c", "d 'e", "fgh", ""});
  CHECK(split_command("a 'b").error().text == "the quote ' is not closed");
  CHECK(split_command("")->empty());
}

TEST_CASE("autoscaling takes the place of backends, with a port for each process") {
  Options options;
  REQUIRE(load({kCommand, "--autoscale-ports=7001-7020"}, options).empty());
  CHECK(options.backends.empty());
  CHECK(autoscale_rules(options.autoscale).max == 20);
  CHECK(instance_command(options.autoscale, 7003) == Words{"server", "--at", "7003", "--name=auto-7003"});
  CHECK(instance_backend(7003).url == "http://127.0.0.1:7003");
  CHECK(instance_backend(7003).address.port() == 7003);
}

TEST_CASE("what makes no sense is told") {
  const std::string ports = "--autoscale-ports=7001-7004";
  CHECK(error_of({}).starts_with("no backends"));
  CHECK(error_of({"--backends=:1", ports}).find("needs a command") != std::string::npos);
  CHECK(error_of({"--autoscale-command=server", ports}).find("{port}") != std::string::npos);
  CHECK(error_of({"--autoscale-command='{port}", ports}).find("not closed") != std::string::npos);
  CHECK(error_of({kCommand}).find("give a range of ports") != std::string::npos);
  CHECK(error_of({kCommand, "--autoscale-ports=9-1"}).find("give a range of ports") != std::string::npos);
  CHECK(error_of({kCommand, "--autoscale-ports=1-70000"}).find("give a range") != std::string::npos);
  CHECK(error_of({kCommand, ports, "--autoscale-min=0"}).find("use 1 to 256") != std::string::npos);
  CHECK(error_of({kCommand, ports, "--autoscale-min=3", "--autoscale-max=2"}).find("less than min") !=
        std::string::npos);
  CHECK(error_of({kCommand, ports, "--autoscale-max=5"}).find("4 ports, max = 5") != std::string::npos);
  CHECK(error_of({kCommand, ports, "--autoscale-min=5"}).find("4 ports, min = 5") != std::string::npos);
  CHECK(error_of({kCommand, ports, "--backends=127.0.0.1:7002"}).find("is at port 7002") !=
        std::string::npos);
  CHECK(error_of({kCommand, ports, "--backends=127.0.0.1:7005"}).empty());
}

TEST_CASE("a backend of the file has no instance's name or place") {
  Options scaled;
  REQUIRE(load({kCommand, "--autoscale-ports=7001-7004"}, scaled).empty());
  std::vector<BackendOption> backends = {instance_backend(9)};
  CHECK(autoscale_clash(scaled.autoscale, backends).find("give it another id") != std::string::npos);
  CHECK(autoscale_clash({}, backends).empty());
  backends.front().id = "a";
  CHECK(autoscale_clash(scaled.autoscale, backends).empty());
  backends.push_back(instance_backend(7004));
  CHECK(autoscale_clash(scaled.autoscale, backends).find("is one of 7001-7004") != std::string::npos);
}

TEST_CASE("a reload changes limits and times; to turn it on or off, or another command, takes a restart") {
  Options before, after, off;
  REQUIRE(load({kCommand, "--autoscale-ports=7001-7004", "--autoscale-min=2"}, before).empty());
  REQUIRE(load({"--autoscale-command=other {port}", "--autoscale-ports=7001-7009"}, after).empty());
  OptionChanges changes = settle_options(before, after);
  CHECK(changes.restart == Words{"autoscale-command"});
  CHECK(changes.live == Words{"autoscale-min", "autoscale-ports"});
  CHECK(instance_command(after.autoscale, 7001).front() == "server");
  CHECK(autoscale_rules(after.autoscale).max == 9);

  REQUIRE(load({"--backends=127.0.0.1:1"}, off).empty());
  changes = settle_options(before, off);
  CHECK(changes.restart == Words{"autoscale"});
  CHECK(off.autoscale.on());
  CHECK(off.autoscale.min == 2);
}

}  // namespace
}  // namespace dlb::lb
