// Entity tags of conditional requests (RFC 9110 section 13.1.2). Pure.
#pragma once

#include <string>
#include <string_view>

namespace dlb::backend {

// Whether `etag` (strong, with quotes) is named by an If-None-Match value: `*`, or a list of tags, compared
// weakly as the RFC wants it for this field. A malformed list matches as far as it is well-formed.
bool etag_matches(std::string_view if_none_match, std::string_view etag);

// The tag of a feed's rows compressed, another representation and so another strong tag, from that of the
// rows as they are; empty when `plain` is no feed's.
std::string gzip_etag(std::string_view plain);

}  // namespace dlb::backend
