#include "common/ws_handshake.h"

#include <openssl/evp.h>

#include <array>
#include <optional>

namespace dlb {
namespace {

constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr std::string_view kVersion = "13";
constexpr std::size_t kKeyBase64Bytes = 24;  // of 16 bytes

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Calls f(item) for each item of a comma-separated list.
template <class F>
void for_each_item(std::string_view list, F&& f) {
  while (true) {
    const std::size_t comma = list.find(',');
    f(trimmed(list.substr(0, comma)));
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

// Base64 of exactly 16 bytes, padded; the bits that stand for nothing need not be 0 (clients differ).
bool is_sound_key(std::string_view key) {
  if (key.size() != kKeyBase64Bytes || !key.ends_with("==")) return false;
  for (const char c : key.substr(0, kKeyBase64Bytes - 2)) {
    if (base64_value(c) < 0) return false;
  }
  return true;
}

// A field that may stand once: nothing when it stands more often, an empty text when it doesn't.
std::optional<std::string_view> single(const HeaderFields& fields, HeaderId id) {
  std::string_view value;
  int count = 0;
  for (const HeaderField& field : fields.all()) {
    if (field.id != id) continue;
    value = field.value;
    ++count;
  }
  if (count > 1) return std::nullopt;
  return value;
}

bool is_allowed(std::string_view origin, std::span<const std::string> origins) {
  for (const std::string& allowed : origins) {
    if (allowed == origin) return true;
  }
  return false;
}

WsHandshake refused(int status, std::string_view code, std::string_view detail) {
  WsHandshake result;
  result.status = status;
  result.code = code;
  result.detail = detail;
  return result;
}

}  // namespace

bool asks_for_websocket(const RequestHead& head) {
  if (!head.upgrade) return false;
  bool found = false;
  for (const HeaderField& field : head.fields.all()) {
    if (field.id != HeaderId::Upgrade) continue;
    for_each_item(field.value, [&](std::string_view item) {
      if (equals_ignoring_case(item, "websocket")) found = true;
    });
  }
  return found;
}

WsHandshake judge_ws_handshake(const RequestHead& head, std::span<const std::string> origins) {
  if (head.method != HttpMethod::Get && head.method != HttpMethod::Head) {
    return refused(405, "method_not_allowed", "A WebSocket is opened by GET.");
  }
  if (head.method == HttpMethod::Head || !asks_for_websocket(head)) {
    return refused(426, "upgrade_required", "This path speaks WebSocket.");
  }
  if (head.framing != BodyFraming::None && (head.framing != BodyFraming::Length || head.content_length > 0)) {
    return refused(400, "bad_request", "A WebSocket request has no body.");
  }
  if (single(head.fields, HeaderId::SecWebSocketVersion) != kVersion) {
    return refused(426, "upgrade_required", "The only WebSocket version here is 13.");
  }
  const auto key = single(head.fields, HeaderId::SecWebSocketKey);
  if (!key || !is_sound_key(*key)) {
    return refused(400, "bad_request", "Sec-WebSocket-Key must be the base64 of 16 bytes.");
  }
  const auto origin = single(head.fields, HeaderId::Origin);
  const bool named = !origin || head.fields.find(HeaderId::Origin) != nullptr;
  if (named && !origins.empty() && (!origin || !is_allowed(*origin, origins))) {
    return refused(403, "origin_refused", "This origin may not open a WebSocket here.");
  }
  WsHandshake result;
  result.key = *key;
  result.origin = origin.value_or(std::string_view());
  return result;
}

std::string ws_accept_value(std::string_view key) {
  std::string text(key);
  text += kGuid;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  std::array<char, 2 * EVP_MAX_MD_SIZE> encoded{};
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()), digest.data(),
                                     static_cast<int>(size));
  return {encoded.data(), static_cast<std::size_t>(length)};
}

std::string ws_switching_response(std::string_view key, std::string_view fixed_lines) {
  std::string out = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
  out += "Sec-WebSocket-Accept: ";
  out += ws_accept_value(key);
  out += "\r\n";
  out += fixed_lines;
  out += "\r\n";
  return out;
}

std::vector<std::string> split_origins(std::string_view list) {
  std::vector<std::string> out;
  for_each_item(list, [&](std::string_view item) {
    if (!item.empty()) out.emplace_back(item);
  });
  return out;
}

}  // namespace dlb
