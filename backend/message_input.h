// From the bytes of a request to a NewMessage, or to the error that answers it: JSON (simdjson, read strictly
// to the last byte), forms and queries, and the Idempotency-Key that stands in for a missing message-id.
//
// Strict means: the whole document is walked (JsonFields), and no known field stands twice. Order of
// verdicts: form of the document, repeated fields, types, missing fields, values. One thread; a MessageInput
// is scratch memory that is used again for each request.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "backend/json_fields.h"
#include "backend/message.h"
#include "backend/message_rules.h"
#include "backend/message_store.h"

namespace dlb::backend {

enum class BodyKind { Json, Form, Unsupported };

// What a Content-Type asks for. Absent or empty is JSON. A charset other than UTF-8 (or its subset US-ASCII)
// is unsupported, since the text would have to be converted.
BodyKind body_kind(std::string_view content_type);

// A message whose id is empty when none was given: the caller makes one.
using MessageOrError = std::variant<NewMessage, InputError>;

class MessageInput {
 public:
  // `idempotency_key`: the header's value when it was sent (an empty one is an error).
  MessageOrError from_json(std::string_view body, std::optional<std::string_view> idempotency_key);
  MessageOrError from_form(std::string_view encoded, std::optional<std::string_view> idempotency_key);

 private:
  JsonFields json_;
};

// `after` and `limit` of GET /feed. Unknown fields are ignored, repeated known ones refused; a limit over
// 1000 is 1000.
std::variant<FeedQuery, InputError> parse_feed_query(std::string_view query);

}  // namespace dlb::backend
