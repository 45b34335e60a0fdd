#include "loadgen/verify_main.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include "loadgen/chat_key.h"
#include "loadgen/verify_checks.h"

namespace dlb::loadgen {
namespace {

constexpr int kUsage = 2;

int usage_error(const std::string& text) {
  std::fprintf(stderr, "loadgen verify: %s\n", text.c_str());
  return kUsage;
}

Result<RsaPrivateKey> key_of(const std::string& path) {
  if (path.empty()) return RsaPrivateKey::generate();
  auto loaded = load_or_make_key(path, "loadgen verify");
  if (!loaded) return loaded.error();
  if (!loaded->warning.empty()) std::fprintf(stderr, "loadgen verify: %s\n", loaded->warning.c_str());
  return std::move(loaded->key);
}

}  // namespace

int verify_main(int argc, const char* const* argv) {
  VerifyOptions options;
  const auto loaded = load_options(kVerifyOptionTable, options, argc, argv, environ);
  if (!loaded) return usage_error(loaded.error().text);
  if (const auto finished = finish_verify_options(*loaded, options); !finished) {
    return usage_error(finished.error().text);
  }
  if (const auto code = finish_action(kVerifyOptionTable, *loaded, options)) return *code;

  VerifyTargets targets;
  auto target = parse_target(options.url);
  if (!target) return usage_error(loaded->at("url", target.error().text).text);
  targets.target = std::move(*target);
  for (const std::string& url : options.backend_urls) {
    auto backend = parse_target(url);
    if (!backend) return usage_error(loaded->at("backend-urls", backend.error().text).text);
    targets.backends.push_back(std::move(*backend));
  }
  for (const std::string& url : options.wss_url) {
    auto chat = parse_ws_url(url);
    if (!chat) return usage_error(loaded->at("wss-url", chat.error().text).text);
    targets.chats.push_back(std::move(*chat));
  }
  std::optional<TlsContext> tls;
  if (targets.target.tls || std::ranges::any_of(targets.backends, &Target::tls) ||
      std::ranges::any_of(targets.chats, &WsUrl::tls)) {
    auto made = TlsContext::client({!options.insecure, options.ca});
    if (!made) return usage_error(loaded->at("ca", made.error().text).text);
    tls.emplace(std::move(*made));
    targets.tls = &*tls;
  }
  std::optional<RsaPrivateKey> key;
  if (!targets.chats.empty()) {
    auto made = key_of(options.key);
    if (!made) return usage_error(loaded->at("key", made.error().text).text);
    key.emplace(std::move(*made));
    targets.key = &*key;
  }

  const VerifyReport report = VerifyChecks(options, targets).run();
  std::fputs((options.json ? verify_json(report) : verify_text(report)).c_str(), stdout);
  std::fflush(stdout);
  return exit_code(report);
}

}  // namespace dlb::loadgen
