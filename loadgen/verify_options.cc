#include "loadgen/verify_options.h"

#include "loadgen/wss_options.h"

namespace dlb::loadgen {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr OptionRow kRows[] = {
    option<&VerifyOptions::url>(
        "url", {.unit = "url", .help = "The deployment's HTTP: a balancer, or a backend alone."}),
    wss_url_row<VerifyOptions>(
        "The chat's WebSockets, wss://HOST[:PORT][/PATH], several by commas: the users are spread over them. "
        "Without one the chat is not checked."),
    option<&VerifyOptions::backend_urls>(
        "backend-urls", {.unit = "urls", .help = "Also check the health and the feed of each of these."}),
    ca_row<VerifyOptions>(),
    insecure_row<VerifyOptions>(),
    option<&VerifyOptions::key>(
        "key", {.unit = "path",
                .help = "The users' key, PKCS#8 in PEM, made on first use: they keep their names. Without it "
                        "each run takes four new names."}),
    option<&VerifyOptions::json>("json", {.help = "Print one JSON object instead of the table."}),
    option<&VerifyOptions::timeout>("timeout",
                                    {.min = milliseconds(100), .max = hours(1), .help = "Of each check."}),
};

}  // namespace

const OptionTable kVerifyOptionTable = {
    .program = "loadgen verify",
    .intro =
        "Checks a running deployment from outside, by HTTP and as users of the chat, and prints a table.",
    .environment_prefix = "LOADGEN_VERIFY_",
    .rows = kRows,
};

Result<void> finish_verify_options(const LoadedOptions& loaded, const VerifyOptions& options) {
  if (options.url.empty()) return loaded.at("url", "is needed");
  if (options.insecure && !options.ca.empty()) return loaded.at("insecure", "makes --ca meaningless");
  return {};
}

}  // namespace dlb::loadgen
