#include "loadgen/chat_main.h"

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

#include "common/tls_context.h"
#include "loadgen/chat_client.h"
#include "loadgen/chat_key.h"
#include "loadgen/chat_options.h"
#include "loadgen/ws_url.h"

namespace dlb::loadgen {
namespace {

constexpr int kUsage = 2;

int usage_error(const std::string& text) {
  std::fprintf(stderr, "loadgen chat: %s\n", text.c_str());
  return kUsage;
}

}  // namespace

int chat_main(int argc, const char* const* argv) {
  ChatOptions options;
  const auto loaded = load_options(kChatOptionTable, options, argc, argv, environ);
  if (!loaded) return usage_error(loaded.error().text);
  if (loaded->action == OptionAction::Run || loaded->action == OptionAction::Check) {
    if (const auto finished = finish_chat_options(*loaded, options); !finished) {
      return usage_error(finished.error().text);
    }
  }
  const auto url = parse_ws_url(options.url);
  if (!url) return usage_error(loaded->at("url", url.error().text).text);
  if (const auto code = finish_action(kChatOptionTable, *loaded, options)) return *code;

  std::optional<TlsContext> tls;
  if (url->tls) {
    auto made = TlsContext::client({!options.insecure, options.ca});
    if (!made) return usage_error(loaded->at("ca", made.error().text).text);
    tls.emplace(std::move(*made));
  }
  auto key = load_or_make_key(options.key, options.username);
  if (!key) return usage_error(loaded->at("key", key.error().text).text);
  if (!key->warning.empty()) std::fprintf(stderr, "loadgen chat: %s\n", key->warning.c_str());
  if (key->made) {
    std::fprintf(stderr, "loadgen chat: made a key in %s; your name belongs to it, so keep it\n",
                 options.key.c_str());
  }

  EventLoop loop;
  ChatClient client({loop, options, *url, tls ? &*tls : nullptr, key->key,
                     reads_input(*loaded, options) ? STDIN_FILENO : -1});
  return client.run();
}

}  // namespace dlb::loadgen
