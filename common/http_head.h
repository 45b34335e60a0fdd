// What a whole head says: request line or status line, fields, framing and persistence by RFC 9112. Pure. The
// head's lines are given by the offsets of their ends in `bytes`; they have been found sound by scan_head().
// `first` is where the first line starts. Every view of the results points into `bytes`. Internal to the head
// parser.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/http_fields.h"
#include "common/http_message.h"

namespace dlb::http {

// A fault's status is the answer to the client.
Fault read_request(std::string_view bytes, std::size_t first, const LineEnds& lines, HeadFacts& facts,
                   RequestHead& out);

// Any fault means 502, whatever its status.
Fault read_response(std::string_view bytes, const LineEnds& lines, HttpMethod request_method,
                    HeadFacts& facts, ResponseHead& out);

}  // namespace dlb::http
