#include "loadgen/chat_options.h"

#include "common/json_writer.h"
#include "loadgen/chat_key.h"
#include "loadgen/wss_options.h"

namespace dlb::loadgen {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr std::size_t kMaxNameCharacters = 64;

constexpr OptionRow kRows[] = {
    option<&ChatOptions::url>("url",
                              {.unit = "url", .help = "The chat's WebSocket, wss://HOST[:PORT][/PATH]."}),
    option<&ChatOptions::username>("username",
                                   {.help = "Your name; it belongs to the first key that takes it. Needed."}),
    option<&ChatOptions::key>(
        "key", {.unit = "path",
                .help = "Your key, PKCS#8 in PEM as the chat page saves it; made on first use. By "
                        "default dlb-NAME.pem here."}),
    ca_row<ChatOptions>(),
    insecure_row<ChatOptions>(),
    option<&ChatOptions::send>("send",
                               {.unit = "text",
                                .help = "Send this and leave when it is stored. Without it, and unless only "
                                        "history is wanted, each line of the standard input is a message."}),
    option<&ChatOptions::follow>("follow", {.help = "Print messages as they come, until interrupted."}),
    option<&ChatOptions::history>(
        "history", {.min = 0, .max = 100'000, .unit = "messages", .help = "Print the latest ones first."}),
    option<&ChatOptions::json>("json",
                               {.help = "Print messages as JSON objects, one a line, with `verified`."}),
    option<&ChatOptions::timeout>("timeout",
                                  {.min = seconds(1),
                                   .max = hours(24),
                                   .help = "Without progress for this time it gives up, unless it follows."}),
};

std::size_t characters(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0U) != 0x80U ? 1 : 0;
  return count;
}

bool has_control(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7f) return true;
    if (c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) return true;
  }
  return false;
}

}  // namespace

const OptionTable kChatOptionTable = {
    .program = "loadgen chat",
    .intro =
        "Chats from a terminal or a script: sends signed messages, prints those of others, and checks their "
        "signatures. Ends with 0 when everything sent is stored.",
    .environment_prefix = "LOADGEN_CHAT_",
    .rows = kRows,
};

Result<void> finish_chat_options(const LoadedOptions& loaded, ChatOptions& options) {
  const std::string& name = options.username;
  if (name.empty()) return loaded.at("username", "a name is needed");
  if (!is_valid_utf8(name) || has_control(name) || characters(name) > kMaxNameCharacters) {
    return loaded.at("username", "1 to 64 characters of UTF-8 without control characters");
  }
  if (options.insecure && !options.ca.empty()) return loaded.at("insecure", "makes --ca meaningless");
  if (options.key.empty()) options.key = default_key_file(name);
  if (loaded.given("send") && options.send.empty()) return loaded.at("send", "is empty");
  return {};
}

bool reads_input(const LoadedOptions& loaded, const ChatOptions& options) {
  return !loaded.given("send") && (options.follow || options.history == 0);
}

}  // namespace dlb::loadgen
