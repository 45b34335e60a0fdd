// What a whole head says: request line or status line, fields, framing and persistence by RFC 9112. Pure.
// `head` runs from the first line to the empty line, inclusive, has been found sound by scan_head(), and
// every view of the results points into it. Internal to the head parser.
#pragma once

#include <string_view>

#include "common/http_fields.h"
#include "common/http_message.h"

namespace dlb::http {

// A fault's status is the answer to the client.
Fault read_request(std::string_view head, HeadFacts& facts, RequestHead& out);

// Any fault means 502, whatever its status.
Fault read_response(std::string_view head, HttpMethod request_method, HeadFacts& facts, ResponseHead& out);

}  // namespace dlb::http
