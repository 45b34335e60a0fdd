#include "loadgen/chat_printer.h"

#include <utility>

#include "common/base64.h"
#include "loadgen/chat_protocol.h"

namespace dlb::loadgen {
namespace {

bool needs_key(const ChatMessage& message) {
  return message.source == "wss" && message.has_text && !message.signature.empty();
}

}  // namespace

void ChatPrinter::add(ChatMessage message) {
  if (message.sequence <= last_) return;
  last_ = message.sequence;
  waiting_.push_back(std::move(message));
  print_ready();
}

std::string_view ChatPrinter::wanted_key() const {
  return waiting_.empty() ? std::string_view() : std::string_view(waiting_.front().name);
}

void ChatPrinter::key_of(std::string_view name, std::string_view public_key) {
  if (keys_.size() >= kMaxKeys) keys_.clear();
  std::optional<RsaPublicKey>& known = keys_[std::string(name)];
  known.reset();
  if (const auto der = base64_decode(public_key); der && !der->empty()) {
    if (auto key = RsaPublicKey::parse(*der)) known.emplace(std::move(*key));
  }
  print_ready();
  if (!known) keys_.erase(std::string(name));  // it may be taken later
}

void ChatPrinter::reset() {
  last_ = 0;
  keys_.clear();
}

SignatureVerdict ChatPrinter::judge(const ChatMessage& message) const {
  if (message.source != "wss") return SignatureVerdict::Unsigned;
  const auto known = keys_.find(message.name);
  if (!needs_key(message) || known == keys_.end() || !known->second) return SignatureVerdict::Unchecked;
  const auto signature = base64_decode(message.signature);
  const bool good =
      signature && known->second->verify(message_text(message.name, message.id, message.text), *signature);
  return good ? SignatureVerdict::Good : SignatureVerdict::Bad;
}

void ChatPrinter::print_ready() {
  bool any = false;
  while (!waiting_.empty()) {
    const ChatMessage& message = waiting_.front();
    if (needs_key(message) && !keys_.contains(message.name)) break;
    const SignatureVerdict verdict = judge(message);
    std::string line = json_ ? message_json(message, verdict) : message_line(message, verdict);
    line += '\n';
    if (std::fwrite(line.data(), 1, line.size(), out_) != line.size()) broken_ = true;
    waiting_.pop_front();
    any = true;
  }
  if (any && std::fflush(out_) != 0) broken_ = true;
}

}  // namespace dlb::loadgen
