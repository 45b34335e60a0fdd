// ChatPrinter: messages in, each once and in the order of their sequence, lines out, with the verdict on each
// signature. A message whose name's key isn't known yet holds up what comes behind it until key_of() tells.
// Writes to a FILE, which may block: that is the back-pressure of a terminal client. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/rsa_pss.h"
#include "loadgen/chat_text.h"

namespace dlb::loadgen {

class ChatPrinter {
 public:
  // Keys that are kept; over it all are forgotten, and asked for again.
  static constexpr std::size_t kMaxKeys = 1000;

  ChatPrinter(std::FILE* out, bool json) : out_(out), json_(json) {}

  // Ignored unless it is newer than all before.
  void add(ChatMessage message);
  // Whose key is needed before anything goes on; empty when nothing waits.
  std::string_view wanted_key() const;
  // The answer: base64 of a SubjectPublicKeyInfo; empty, or what is none: it isn't to be had.
  void key_of(std::string_view name, std::string_view public_key);
  // What was told before does not hold any more: sequences begin anew.
  void reset();

  // Nothing waits for a key.
  bool drained() const { return waiting_.empty(); }
  // The output is gone: a closed pipe, a full disk.
  bool broken() const { return broken_; }

 private:
  void print_ready();
  SignatureVerdict judge(const ChatMessage& message) const;

  std::FILE* out_;
  bool json_;
  bool broken_ = false;
  std::int64_t last_ = 0;
  std::deque<ChatMessage> waiting_;
  std::unordered_map<std::string, std::optional<RsaPublicKey>> keys_;
};

}  // namespace dlb::loadgen
