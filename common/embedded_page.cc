#include "common/embedded_page.h"

#include <openssl/sha.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "common/base64.h"
#include "common/check.h"

namespace dlb {
namespace {

constexpr std::string_view kStyleMark = "</style>";
constexpr std::string_view kScriptMark = "</script>";

std::string hash_source(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return "'sha256-" + base64_encode({reinterpret_cast<const char*>(digest.data()), digest.size()}) + "'";
}

}  // namespace

EmbeddedPage make_embedded_page(std::string_view html, std::string_view style, std::string_view script,
                                std::string_view sources) {
  const std::size_t style_at = html.find(kStyleMark);
  const std::size_t script_at = html.rfind(kScriptMark);
  DLB_CHECK(style_at < script_at && script_at < html.size());
  std::vector<BodyPart> parts;
  std::size_t bytes = 0;
  for (const std::string_view part :
       {html.substr(0, style_at), style, html.substr(style_at, script_at - style_at), script,
        html.substr(script_at)}) {
    parts.push_back(BodyPart{nullptr, part});
    bytes += part.size();
  }
  std::string policy =
      "default-src 'none'; script-src " + hash_source(script) + "; style-src " + hash_source(style) + "; ";
  policy += sources;
  policy +=
      "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
      "trusted-types 'none'";
  return {HttpBody{std::make_shared<const std::vector<BodyPart>>(std::move(parts)), bytes},
          std::move(policy)};
}

}  // namespace dlb
