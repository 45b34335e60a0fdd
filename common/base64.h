// Base64 in the standard alphabet with padding (RFC 4648 section 4), strict: what encodes to other text than
// what was given is refused, so white space, missing padding and loose last bits are. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlb {

std::string base64_encode(std::string_view bytes);

// Nothing unless `text` is exactly how its bytes are encoded. Empty text is no bytes.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace dlb
