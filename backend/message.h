// Chat messages as values, and what the store answers about them. Shared by the HTTP API, WSS sessions and
// both stores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlb::backend {

enum class MessageSource : std::uint8_t { Http, Wss };

// Already validated (message_rules.h): UTF-8, limits kept, no U+0000.
struct NewMessage {
  std::string id;           // 1-128 code points
  std::string client_name;  // 1-64 code points
  std::string text;         // 1 byte to 64 KiB, byte-exact
  MessageSource source = MessageSource::Http;
  std::string signature;  // base64 RSA-PSS, WSS only
};

// A committed row, decrypted: views of whoever has it. Sequences rise in commit order; timestamps are
// microseconds since the epoch.
struct StoredMessage {
  std::int64_t sequence = 0;
  std::int64_t timestamp_us = 0;
  std::string_view id;
  std::string_view client_name;
  std::string_view text;
  MessageSource source = MessageSource::Http;
  std::string_view signature;
  bool undecryptable = false;  // quarantined: text is empty
};

enum class PutStatus : std::uint8_t {
  Created,         // 201: committed now
  Duplicate,       // 200: the same id and content was there; sequence and timestamp are the original's
  Conflict,        // 409: the id is taken by other content (or by a row that can't be decrypted)
  Unavailable,     // 503: nothing was stored (queue full, queue time-out, database away)
  OutcomeUnknown,  // 503: the connection was lost while the commit was in doubt
  Refused,         // 500: the database refuses this very row, or no key may encrypt any more
};

struct PutOutcome {
  PutStatus status = PutStatus::Unavailable;
  std::int64_t sequence = 0;                   // Created, Duplicate
  std::int64_t timestamp_us = 0;               // Created, Duplicate
  MessageSource source = MessageSource::Http;  // the stored row's
  std::string detail;                          // one sentence for people; no secret and no message text
};

}  // namespace dlb::backend
