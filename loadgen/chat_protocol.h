// The chat's messages between client and server (spec of the WSS protocol: backend/README.md), as values:
// what a client says is written, what a server says is read. Signatures are made and checked here. Pure but
// for the reader's scratch memory; no sockets, no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/rsa_pss.h"
#include "loadgen/chat_text.h"

namespace dlb::loadgen {

// --- what is signed

std::string register_text(std::string_view name, std::string_view timestamp,
                          std::string_view key_fingerprint);
std::string message_text(std::string_view name, std::string_view id, std::string_view text);

// --- what a client says

// `after`: resumes behind that sequence; -1: it has seen nothing yet.
std::string register_request(const RsaPrivateKey& key, std::string_view name, std::string_view timestamp,
                             std::int64_t after);
// What a registration signs holds for five minutes, wherever it resumes.
struct SignedRegistration {
  std::string timestamp;
  std::string signature;  // base64
};
SignedRegistration sign_registration(const RsaPrivateKey& key, std::string_view name,
                                     std::string_view timestamp);
// `public_key`: base64.
std::string register_request(const SignedRegistration& signed_one, std::string_view public_key,
                             std::string_view name, std::int64_t after);
std::string message_request(const RsaPrivateKey& key, std::string_view name, std::string_view id,
                            std::string_view text);
// With a signature of message_text() that was made before, raw.
std::string message_request(std::string_view id, std::string_view text, std::string_view signature);
// `before`: the newest below it; 0: the newest of all.
std::string history_request(std::int64_t limit, std::int64_t before);
std::string key_request(std::string_view name);
std::string ping_request();

// --- what a server says

struct ServerSaid {
  enum class Kind : std::uint8_t {
    Unknown,  // a type that we don't know, to be ignored
    Broken,   // no JSON, or not of the shape that its type has
    Registered,
    Message,  // messages[0]
    Ack,
    History,
    Resumed,
    Reset,
    Key,
    Pong,
    Error,
  };

  Kind kind = Kind::Broken;
  std::vector<ChatMessage> messages;  // Message: one; History: ascending
  std::string id;                     // Ack; Error, if it is about a message
  std::int64_t sequence = 0;          // Ack; Resumed: through_sequence
  std::string timestamp;              // Ack
  bool duplicate = false;             // Ack: was stored before
  std::int64_t next_before = 0;       // History: 0 when there is no more
  std::string name;                   // Key
  std::string public_key;             // Key: base64
  std::string code;                   // Error
  std::string detail;                 // Error
};

class ServerReader {
 public:
  ServerReader();
  ~ServerReader();
  ServerSaid read(std::string_view text);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// Whether an error passes by itself: the same message may be sent again, under the same id.
bool error_passes(std::string_view code);

}  // namespace dlb::loadgen
