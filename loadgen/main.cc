// loadgen: reads the command line, builds the run, and gives its exit code. `loadgen chat …` and `loadgen
// compare …` are programs of their own: chat_main.h, compare_main.h.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string_view>

#include "common/option.h"
#include "common/signals.h"
#include "common/standard_streams.h"
#include "loadgen/chat_load.h"
#include "loadgen/chat_main.h"
#include "loadgen/compare_main.h"
#include "loadgen/options.h"
#include "loadgen/run.h"
#include "loadgen/verify_main.h"

namespace {

using dlb::loadgen::ExitCode;

// Besides one connection a user: epoll, eventfd, signalfd, files, standard streams, probes.
constexpr std::uint64_t kSpareDescriptors = 64;

int usage_error(const std::string& text) {
  std::fprintf(stderr, "loadgen: %s\n", text.c_str());
  return static_cast<int>(ExitCode::Usage);
}

dlb::Result<std::vector<dlb::loadgen::Target>> targets_of(const std::vector<std::string>& urls) {
  std::vector<dlb::loadgen::Target> targets;
  for (const std::string& url : urls) {
    auto target = dlb::loadgen::parse_target(url);
    if (!target) return target.error();
    targets.push_back(std::move(*target));
  }
  return targets;
}

}  // namespace

int main(int argc, char** argv) {
  dlb::open_missing_standard_streams();
  if (argc > 1 && std::string_view(argv[1]) == "compare") return dlb::loadgen::compare_main(argc, argv);
  dlb::block_signals({SIGINT, SIGTERM, SIGHUP});
  if (argc > 1 && std::string_view(argv[1]) == "chat") return dlb::loadgen::chat_main(argc - 1, argv + 1);
  if (argc > 1 && std::string_view(argv[1]) == "verify") return dlb::loadgen::verify_main(argc - 1, argv + 1);
  dlb::loadgen::Options options;
  const auto loaded = dlb::load_options(dlb::loadgen::kOptionTable, options, argc, argv, environ);
  if (!loaded) return usage_error(loaded.error().text);
  if (loaded->action != dlb::OptionAction::Help && loaded->action != dlb::OptionAction::HelpMarkdown &&
      loaded->action != dlb::OptionAction::Version) {
    if (const auto finished = dlb::loadgen::finish_options(*loaded, options); !finished) {
      return usage_error(finished.error().text);
    }
  }
  if (const auto code = dlb::finish_action(dlb::loadgen::kOptionTable, *loaded, options); code) return *code;

  auto targets = targets_of(options.url);
  if (!targets) return usage_error(loaded->at("url", targets.error().text).text);
  auto verify_targets = targets_of(options.verify_urls);
  if (!verify_targets) return usage_error(loaded->at("verify-urls", verify_targets.error().text).text);
  const bool leaderboard = dlb::loadgen::plan_of(options, 0).leaderboard;
  auto sampler_plan = dlb::loadgen::sampler_plan(options, *targets, *verify_targets, leaderboard, *loaded);
  if (!sampler_plan) return usage_error(sampler_plan.error().text);
  const auto users = static_cast<std::uint64_t>(dlb::loadgen::plan_of(options, 0).users_max());
  const auto held = static_cast<std::uint64_t>(options.held_new_connections);
  const auto limit = dlb::loadgen::raise_descriptor_limit(
      users + held + dlb::loadgen::chat_sessions(options) + kSpareDescriptors);
  if (!limit) return usage_error(limit.error().text);

  std::unique_ptr<dlb::loadgen::ChatLoad> chat;
  if (dlb::loadgen::chat_sessions(options) > 0) {
    auto made = dlb::loadgen::ChatLoad::make(options, *loaded);
    if (!made) return usage_error(made.error().text);
    chat = std::move(*made);
  }

  dlb::loadgen::Run run(options, std::move(*targets), std::move(*verify_targets), std::move(*sampler_plan),
                        stdout, std::move(chat));
  return static_cast<int>(run.execute());
}
