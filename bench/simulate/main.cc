// simulate: the balancer's own routing, health, ejection, queue and retry classes against simulated servers,
// in virtual time. Scenarios come from TOML files (bench/README.md); the same seed gives the same output,
// byte for byte.
//
//   make simulate && bench/simulate/simulate [--scenarios FILE,FOLDER] [--policies NAME,NAME] [--html FILE] …
//
// Exit codes: 0 done, 1 a file can't be written, 2 bad usage or scenario.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "bench/simulate/page.h"
#include "bench/simulate/report.h"
#include "bench/simulate/simulation.h"
#include "common/option.h"
#include "lb/policy/policy.h"

namespace dlb::bench {
namespace {

struct SimulateOptions {
  std::vector<std::string> scenarios = {"bench/scenarios"};
  std::vector<std::string> policies;
  std::int64_t seed = -1;
  bool json = false;
  std::string html;
  std::string beside;
};

constexpr OptionRow kRows[] = {
    option<&SimulateOptions::scenarios>("scenarios", {.unit = "files", .help = "Or folders of *.toml."}),
    option<&SimulateOptions::policies>("policies",
                                       {.unit = "names", .help = "Empty: the scenario's, or all."}),
    option<&SimulateOptions::seed>("seed", {.min = -1, .max = 1e12, .help = "-1: the scenario's own."}),
    option<&SimulateOptions::json>("json", {.help = "JSON to standard output in place of the table."}),
    option<&SimulateOptions::html>("html", {.unit = "file", .help = "Also a page with charts, in one file."}),
    option<&SimulateOptions::beside>("beside",
                                     {.unit = "file", .help = "Measurements (measure.py) for the page."}),
};
constexpr OptionTable kTable{.program = "simulate",
                             .intro = "Plays scenarios with the balancer's own classes in virtual time.",
                             .environment_prefix = "",
                             .rows = kRows};

int fail(const std::string& text, int code) {
  std::fprintf(stderr, "simulate: %s\n", text.c_str());
  return code;
}

std::vector<std::string> files_of(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& one : given) {
    std::error_code none;
    if (!std::filesystem::is_directory(one, none)) {
      files.push_back(one);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(one, none)) {
      if (entry.path().extension() == ".toml") inside.push_back(entry.path().string());
    }
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

std::vector<std::string> policies_of(const SimulateOptions& options, const Scenario& scenario) {
  if (!options.policies.empty()) return options.policies;
  if (!scenario.policies.empty()) return scenario.policies;
  std::vector<std::string> all;
  for (const lb::PolicyKind kind : lb::kPolicyKinds) all.emplace_back(lb::policy_name(kind));
  return all;
}

int run(int argc, char** argv) {
  SimulateOptions options;
  const char* const no_environment[] = {nullptr};
  const auto loaded = load_options(kTable, options, argc, argv, no_environment);
  if (!loaded) return fail(loaded.error().text, 2);
  if (const auto code = finish_action(kTable, *loaded, options); code) return *code;
  std::vector<Outcome> outcomes;
  for (const std::string& file : files_of(options.scenarios)) {
    auto scenario = read_scenario(file);
    if (!scenario) return fail(scenario.error().text, 2);
    if (options.seed >= 0) scenario->seed = static_cast<std::uint64_t>(options.seed);
    for (const std::string& policy : policies_of(options, *scenario)) {
      if (!lb::policy_from_name(policy)) return fail("no policy is called " + policy, 2);
      outcomes.push_back(Simulation(*scenario, policy).run());
    }
  }
  if (outcomes.empty()) return fail("no scenario: give --scenarios FILE or a folder with *.toml", 2);
  if (!options.html.empty()) {
    std::ostringstream beside;
    if (!options.beside.empty() && !(beside << std::ifstream(options.beside).rdbuf())) {
      return fail(options.beside + ": can't be read", 1);
    }
    std::ofstream file(options.html);
    file << outcome_page(outcome_json(outcomes), beside.str());
    if (!file.flush()) return fail(options.html + ": can't be written", 1);
  }
  const std::string text = options.json ? outcome_json(outcomes) : outcome_table(outcomes);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    return fail("standard output: full", 1);
  return 0;
}

}  // namespace
}  // namespace dlb::bench

int main(int argc, char** argv) { return dlb::bench::run(argc, argv); }
