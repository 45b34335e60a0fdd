#include "loadgen/chat_probe.h"

#include <algorithm>

#include "common/clock.h"
#include "common/tls_session.h"

namespace dlb::loadgen {

using Kind = ServerSaid::Kind;

ChatProbe::ChatProbe(const Parts& parts, std::string name)
    : parts_(parts), name_(std::move(name)), socket_(parts.loop, parts.timers, parts.tls, *this) {}

Error ChatProbe::trouble(std::string_view waited_for) const {
  if (parts_.stop) return Error{"interrupted"};
  if (!ended_.empty()) return Error{ended_};
  return Error{"waited in vain for " + std::string(waited_for) +
               (latest_.empty() ? "; nothing came" : "; what came last: " + escape_for_terminal(latest_))};
}

void ChatProbe::on_ws_open() {
  if (socket_.tls() != nullptr) expires_at_ = socket_.tls()->peer_expires_at();
  socket_.send_text(register_request(parts_.key, name_, iso8601_utc(wall_now_us()), after_));
}

void ChatProbe::on_ws_end(const WsClientEnd& end) { ended_ = end.why; }

void ChatProbe::on_ws_text(std::string_view text) {
  latest_ = text.substr(0, kShownBytes);
  ServerSaid said = reader_.read(text);
  if (said.kind == Kind::Message) {
    ChatMessage& message = said.messages.front();
    if (message.id.starts_with(parts_.prefix) && kept_.size() < kMaxKept) kept_.push_back(std::move(message));
    return;
  }
  if (said.kind != Kind::Unknown && answers_.size() < kMaxKept) answers_.push_back(std::move(said));
}

// Behind what was said, to which answers_ are the answers.
Result<ServerSaid> ChatProbe::wait(Kind kind, std::string_view id, TimePoint deadline) {
  const auto answers = [&](const ServerSaid& said) {
    return said.kind == Kind::Broken || ((said.kind == kind || said.kind == Kind::Error) &&
                                         (id.empty() || said.id.empty() || said.id == id));
  };
  auto found = answers_.end();
  for (;;) {
    found = std::find_if(answers_.begin(), answers_.end(), answers);
    if (found != answers_.end() || !ended_.empty() || parts_.stop || monotonic_now() >= deadline) break;
    parts_.loop.run_once(std::min(kTurn, deadline - monotonic_now()));
  }
  if (found == answers_.end()) return trouble("the server's answer");
  ServerSaid said = std::move(*found);
  answers_.erase(found);
  if (said.kind == Kind::Broken) return Error{"the server doesn't speak the chat's protocol"};
  if (said.kind == Kind::Error) return Error{said.code + ": " + said.detail};
  return said;
}

Result<void> ChatProbe::join(const WsUrl& url, std::int64_t after, TimePoint deadline) {
  socket_.drop();
  kept_.clear();
  answers_.clear();
  ended_.clear();
  latest_.clear();
  after_ = after;
  if (auto opened = socket_.open(url); !opened) return opened;
  auto registered = wait(Kind::Registered, {}, deadline);
  if (!registered) return registered.error();
  if (after < 0) return {};
  auto resumed = wait(Kind::Resumed, {}, deadline);
  if (!resumed) return resumed.error();
  return {};
}

Result<ServerSaid> ChatProbe::say(std::string_view id, std::string_view text, TimePoint deadline) {
  answers_.clear();
  socket_.send_text(message_request(parts_.key, name_, id, text));
  return wait(Kind::Ack, id, deadline);
}

Result<void> ChatProbe::wait_message(std::string_view id, TimePoint deadline) {
  while (times(id) == 0 && ended_.empty() && !parts_.stop && monotonic_now() < deadline) {
    parts_.loop.run_once(std::min(kTurn, deadline - monotonic_now()));
  }
  if (times(id) == 0) return trouble("the message");
  return {};
}

Result<void> ChatProbe::fence(TimePoint deadline) {
  answers_.clear();
  socket_.send_text(ping_request());
  auto answered = wait(Kind::Pong, {}, deadline);
  if (!answered) return answered.error();
  return {};
}

Result<ServerSaid> ChatProbe::history(std::int64_t limit, std::int64_t before, TimePoint deadline) {
  answers_.clear();
  socket_.send_text(history_request(limit, before));
  return wait(Kind::History, {}, deadline);
}

Result<ServerSaid> ChatProbe::key_of(std::string_view name, TimePoint deadline) {
  answers_.clear();
  socket_.send_text(key_request(name));
  return wait(Kind::Key, {}, deadline);
}

std::size_t ChatProbe::times(std::string_view id) const {
  return static_cast<std::size_t>(
      std::count_if(kept_.begin(), kept_.end(), [&](const ChatMessage& m) { return m.id == id; }));
}

const ChatMessage* ChatProbe::first(std::string_view id) const {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const ChatMessage& m) { return m.id == id; });
  return found == kept_.end() ? nullptr : &*found;
}

}  // namespace dlb::loadgen
