#include "backend/chat_room.h"

#include <algorithm>
#include <utility>

#include "backend/chat_output.h"
#include "common/check.h"
#include "common/turn_share.h"

namespace dlb::backend {
namespace {

constexpr std::int64_t kClockWindowUs = std::int64_t{5} * 60 * 1'000'000;
constexpr Duration kVerifyBudget = std::chrono::milliseconds(2);  // a turn; 60 signatures of 2048 bits
constexpr std::size_t kMaxUnsettled = 64;                         // messages of a session; more are not read
constexpr std::size_t kMaxUnverifiedBytes = std::size_t{16} << 20;

ChatError overloaded() { return {"unavailable", "too many signatures wait to be verified; try again"}; }

}  // namespace

ChatRoom::ChatRoom(EventLoop& loop, WsServer& sockets, const ChatConfig& config)
    : loop_(loop),
      sockets_(sockets),
      config_(config),
      timers_(loop),
      arrival_timer_(timers_, *this),
      key_timers_(loop, config.key_idle) {
  loop_.add_turn_end_hook(*this);
}

ChatRoom::~ChatRoom() { loop_.remove_turn_end_hook(*this); }

void ChatRoom::bind(MessageStore& store) {
  store_ = &store;
  store.chat().subscribe(*this);
}

// ---- sessions ----

ChatRoom::Session* ChatRoom::find(WsToken token) {
  const auto found = sessions_.find(token);
  return found == sessions_.end() ? nullptr : &found->second;
}

std::size_t ChatRoom::parsed_keys() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(sessions_, [](const auto& entry) { return entry.second.key != nullptr; }));
}

void ChatRoom::on_open(WsToken token, const WsOpen&) { sessions_.try_emplace(token, token, config_); }

void ChatRoom::on_close(WsToken token, WsEnd) {
  auto node = sessions_.extract(token);
  if (!node.empty()) unlist(node.mapped());
}

// Its name is online no longer, unless another session has it too.
void ChatRoom::unlist(Session& session) {
  if (!std::exchange(session.listed, false)) return;
  const auto name = names_.find(session.username);
  DLB_CHECK(name != names_.end());
  if (--name->second == 0) names_.erase(name);
  names_changed_ = true;
}

void ChatRoom::send(Session& session, std::string_view text) { send(session, WsFrame::text(text)); }

void ChatRoom::send(Session& session, WsFramePtr frame) {
  if (session.held.empty() && sockets_.send_answer(session.token, frame)) return;
  if (!sockets_.is_open(session.token)) return;
  session.held.push_back(std::move(frame));
  update_reading(session);
}

void ChatRoom::send_error(Session& session, const ChatError& error, std::string_view message_id) {
  ++counters_.errors;
  send(session, chat_error(error, message_id));
}

void ChatRoom::set_asking(Session& session, bool asking) {
  session.asking = asking;
  update_reading(session);
}

void ChatRoom::update_reading(Session& session) {
  const std::size_t most = session.paused ? kMaxUnsettled / 2 : kMaxUnsettled;
  const bool pause = session.asking || !session.held.empty() || session.unsettled >= most;
  if (pause == session.paused) return;
  session.paused = pause;
  if (pause) {
    sockets_.pause_reading(session.token);
  } else {
    sockets_.resume_reading(session.token);
  }
}

void ChatRoom::on_writable(WsToken token) {
  Session* session = find(token);
  if (session == nullptr) return;
  while (!session->held.empty()) {
    if (!sockets_.send_answer(token, session->held.front())) return;
    session->held.erase(session->held.begin());
  }
  update_reading(*session);
  if (session->replaying) continue_replay(*session);
}

// ---- requests ----

void ChatRoom::on_text(WsToken token, std::string_view text) {
  Session* session = find(token);
  if (session == nullptr) return;
  if (auto error = input_.read(text)) return send_error(*session, *error);
  const ChatKind kind = input_.kind();
  if (kind == ChatKind::Register && session->state != State::Connected) {
    return send_error(*session, {"already_registered", "this session has a name already"});
  }
  const std::string id = kind == ChatKind::Message ? input_.message_id() : std::string();
  if (kind != ChatKind::Register && session->state != State::Registered) {
    return send_error(*session, {"not_registered", "register first"}, id);
  }
  if (kind == ChatKind::Message) ++counters_.messages;
  if (kind == ChatKind::Message && !session->bucket.take(loop_.now())) {
    ++counters_.rate_limited;
    return send_error(*session, {"rate_limited", "too many messages in a short time"}, id);
  }
  ChatRequest request = input_.take();
  if (const auto* error = std::get_if<ChatError>(&request)) return send_error(*session, *error, id);
  handle(*session, std::move(request));
}

void ChatRoom::handle(Session& session, ChatRequest request) {
  if (auto* one = std::get_if<ChatRegister>(&request)) {
    handle_register(session, std::move(*one));
  } else if (auto* message = std::get_if<ChatMessage>(&request)) {
    handle_message(session, std::move(*message));
  } else if (const auto* history = std::get_if<ChatLoadHistory>(&request)) {
    set_asking(session, true);
    store_->chat().history(history->before, std::min(history->limit, config_.history_limit),
                           ask(Asked::What::History, session.token));
  } else if (const auto* resume = std::get_if<ChatResume>(&request)) {
    begin_replay(session, resume->after);
  } else if (std::holds_alternative<ChatUsers>(request)) {
    set_asking(session, true);
    store_->chat().users(ask(Asked::What::Users, session.token));
  } else if (auto* key = std::get_if<ChatKey>(&request)) {
    set_asking(session, true);
    store_->chat().find_key(key->username, ask(Asked::What::Key, session.token, key->username));
  } else if (std::holds_alternative<ChatPing>(request)) {
    send(session, kChatPong);
  }
}

void ChatRoom::handle_register(Session& session, ChatRegister request) {
  const std::int64_t age = wall_now_us() - request.timestamp_us;
  if (age > kClockWindowUs || age < -kClockWindowUs) {
    return register_failed(session, {"stale_timestamp", "timestamp must be within five minutes of now"});
  }
  session.state = State::Registering;
  set_asking(session, true);
  const std::size_t bytes = request.public_key.size() + request.signature.size() + sizeof(Unverified);
  unverified_bytes_ += bytes;
  unverified_.push_back({session.token, std::move(request), bytes});
}

void ChatRoom::handle_message(Session& session, ChatMessage request) {
  const std::size_t bytes = request.text.size() + request.signature.size() + sizeof(Unverified);
  if (unverified_bytes_ + bytes > kMaxUnverifiedBytes) return send_error(session, overloaded(), request.id);
  ++session.unsettled;
  update_reading(session);
  unverified_bytes_ += bytes;
  unverified_.push_back({session.token, std::move(request), bytes});
}

// ---- signatures ----

void ChatRoom::on_turn_end() {
  if (!unverified_.empty()) verify_some();
  if (std::exchange(names_changed_, false)) tell_names();
}

void ChatRoom::verify_some() {
  const TimePoint begin = monotonic_now();
  const TimePoint end = turn_share(loop_, kVerifyBudget);
  TimePoint now = begin;
  while (!unverified_.empty() && now < end) {
    Unverified one = std::move(unverified_.front());
    unverified_.pop_front();
    unverified_bytes_ -= one.bytes;
    Session* session = find(one.token);
    if (session == nullptr) continue;
    ++counters_.verified;
    std::visit([&](auto& what) { verify(*session, std::move(what)); }, one.what);
    now = monotonic_now();
  }
  counters_.verify_seconds_sum += seconds(now - begin);
  if (!unverified_.empty()) loop_.wake();
}

void ChatRoom::tell_names() {
  std::vector<std::string> names;
  names.reserve(names_.size());
  for (const auto& [name, count] : names_) names.push_back(name);
  const std::uint64_t version = store_->chat().set_present(std::move(names));
  for (Arrival& arrival : arrivals_) {
    if (arrival.version == 0) arrival.version = version;
  }
}

void ChatRoom::verify(Session& session, ChatRegister request) {
  auto key = RsaPublicKey::parse(request.public_key);
  if (!key) return register_failed(session, {"bad_key", "public_key " + key.error().text});
  const std::string text = register_text(request.username, request.timestamp, key->fingerprint());
  if (!key->verify(text, request.signature)) {
    ++counters_.bad_signatures;
    return register_failed(session,
                           {"bad_signature", "the signature is not that of public_key for this text"});
  }
  session.key_der = key->der();
  session.after_sequence = request.after_sequence;
  session.username = std::move(request.username);
  store_->chat().claim(session.username, session.key_der, ask(Asked::What::Claim, session.token));
}

void ChatRoom::verify(Session& session, ChatMessage request) {
  if (session.key == nullptr) {
    auto key = RsaPublicKey::parse(session.key_der);
    DLB_CHECK(key.has_value());  // it was parsed when it registered
    session.key = std::make_unique<RsaPublicKey>(std::move(*key));
  }
  key_timers_.arm(session.key_timer);
  if (!session.key->verify(message_text(session.username, request.id, request.text), request.signature)) {
    ++counters_.bad_signatures;
    return message_failed(session, {"bad_signature", "the signature is not that of your key for this text"},
                          request.id);
  }
  NewMessage message;
  message.id = request.id;
  message.client_name = session.username;
  message.text = std::move(request.text);
  message.source = MessageSource::Wss;
  message.signature = std::move(request.signature_base64);
  store_->put(std::move(message), ask(Asked::What::Put, session.token, std::move(request.id)));
}

void ChatRoom::message_failed(Session& session, ChatError error, std::string_view id) {
  --session.unsettled;
  send_error(session, error, id);
  update_reading(session);
}

void ChatRoom::register_failed(Session& session, ChatError error) {
  ++counters_.register_errors;
  unlist(session);
  session.state = State::Connected;
  session.username.clear();
  session.key_der.clear();
  send_error(session, error);
  set_asking(session, false);
}

}  // namespace dlb::backend
