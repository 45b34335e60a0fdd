#include "lb/upgrade_rules.h"

#include <cstddef>

#include "common/http_syntax.h"

namespace dlb::lb {
namespace {

constexpr std::size_t kMaxOffer = 256;

// protocol-name ["/" protocol-version]
bool is_protocol(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return http::is_token(text);
  return http::is_token(text.substr(0, slash)) && http::is_token(text.substr(slash + 1));
}

bool may_be_tunnelled(std::string_view protocol) {
  const std::string_view name = protocol.substr(0, protocol.find('/'));
  for (const std::string_view banned : {"http", "https", "h2", "h2c", "h3", "tls"}) {
    if (equals_ignoring_case(name, banned)) return false;
  }
  return true;
}

}  // namespace

std::string offered_protocols(const RequestHead& head) {
  std::string offer;
  const bool has_body = head.framing == BodyFraming::Chunked || head.content_length > 0;
  if (!head.upgrade || head.minor_version == 0 || has_body || head.expect_continue) return offer;
  bool sound = true;
  for (const HeaderField& field : head.fields.all()) {
    if (field.id != HeaderId::Upgrade) continue;
    http::for_each_element(field.value, [&](std::string_view protocol) {
      sound = sound && is_protocol(protocol);
      if (sound && may_be_tunnelled(protocol)) {
        if (!offer.empty()) offer += ", ";
        offer += protocol;
      }
      return sound;
    });
  }
  if (!sound || offer.size() > kMaxOffer) offer.clear();
  return offer;
}

bool switches_as_offered(const ResponseHead& head, std::string_view offer) {
  std::size_t named = 0;
  bool all_offered = true;
  for (const HeaderField& field : head.fields.all()) {
    if (field.id != HeaderId::Upgrade) continue;
    http::for_each_element(field.value, [&](std::string_view protocol) {
      bool found = false;
      http::for_each_element(offer, [&](std::string_view one) {
        found = equals_ignoring_case(one, protocol);
        return !found;
      });
      ++named;
      all_offered = all_offered && found;
      return true;
    });
  }
  return named > 0 && all_offered;
}

}  // namespace dlb::lb
