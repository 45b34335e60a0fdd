#include "lb/ctl_options.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "lb/options.h"

namespace dlb::lb {
namespace {

constexpr auto kMaxTime = std::chrono::hours(24);
constexpr std::string_view kCommands[] = {"status", "drain", "ready", "weight",
                                          "reload"};  // as CtlCommand::Kind

constexpr OptionRow kRows[] = {
    option<&CtlOptions::admin_listen>("admin-listen",
                                      {.unit = "address", .help = "Where the balancer's admin listener is."}),
    option<&CtlOptions::admin_token_file>(
        "admin-token-file",
        {.unit = "file", .help = "Its first line is the token that the listener asks for."}),
    option<&CtlOptions::json>("json", {.help = "Print the balancer's answer as JSON, for programs."}),
    option<&CtlOptions::wait>("wait",
                              {.max = kMaxTime,
                               .help = "Drain: until nothing runs on the backend; ready: until it takes "
                                       "requests. 0: don't."}),
    option<&CtlOptions::timeout>(
        "timeout",
        {.min = std::chrono::milliseconds(1), .max = kMaxTime, .help = "For an answer of the balancer."}),
};

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

const OptionTable kCtlOptionTable = {
    .program = "lb ctl",
    .intro =
        "Asks a running balancer, by its admin listener: status [ID...], drain ID, ready ID, weight ID N, "
        "reload.\n"
        "-c FILE takes the two admin options from the balancer's own configuration.",
    .environment_prefix = "LB_",
    .rows = kRows,
    .commands = kCommands,
};

Result<CtlCommand> ctl_command(const LoadedOptions& loaded) {
  if (loaded.command.empty())
    return Error{"say what to do: status, drain, ready, weight or reload; see --help"};
  CtlCommand command;
  while (kCommands[static_cast<std::size_t>(command.kind)] != loaded.command)
    command.kind = static_cast<CtlCommand::Kind>(static_cast<std::uint8_t>(command.kind) + 1);
  command.backends = loaded.operands;
  const auto wants = [&](std::size_t count, std::string_view what) -> Result<CtlCommand> {
    if (loaded.operands.size() != count) return Error{fmt::format("{} takes {}", loaded.command, what)};
    return command;
  };
  switch (command.kind) {
    case CtlCommand::Kind::Status:
      return command;
    case CtlCommand::Kind::Drain:
    case CtlCommand::Kind::Ready:
      return wants(1, "the id of one backend");
    case CtlCommand::Kind::Reload:
      return wants(0, "nothing else");
    case CtlCommand::Kind::Weight:
      break;
  }
  if (auto wanted = wants(2, "the id of a backend and a number"); !wanted) return wanted;
  const std::string number = command.backends.back();
  command.backends.pop_back();
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), command.weight);
  if (!is_digits(number) || error != std::errc() || command.weight > 65535)
    return Error{fmt::format("weight \"{}\": a number from 0 to 65535", number)};
  return command;
}

Result<void> take_balancer_configuration(std::vector<const char*>& arguments, CtlOptions& options) {
  for (std::size_t i = 1; i + 1 < arguments.size(); ++i) {
    const std::string_view flag = arguments[i];
    if (flag == "--") return {};
    if (flag != "-c" && flag != "--config") continue;
    Options balancer;
    const char* const call[] = {"lb", "-c", arguments[i + 1]};
    const auto loaded = load_options(kOptionTable, balancer, 3, call, nullptr);
    if (!loaded) return loaded.error();
    options.admin_listen = balancer.admin_listen;
    options.admin_token_file = balancer.admin_token_file;
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(at, at + 2);
    return {};
  }
  return {};
}

}  // namespace dlb::lb
