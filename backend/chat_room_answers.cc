// ChatRoom's other half: what comes back from the store, replays, and live rows.
#include <algorithm>
#include <utility>

#include "backend/chat_output.h"
#include "backend/chat_room.h"
#include "common/check.h"

namespace dlb::backend {
namespace {

// A registration waits no longer for the list of who is online.
constexpr Duration kArrivalTimeout = std::chrono::seconds(1);
// Nor for the store to have read what there is.
constexpr Duration kLiveTimeout = std::chrono::seconds(5);
constexpr Duration kArrivalLook = std::chrono::milliseconds(50);
// A replay asks for its next page when no more than this waits to be sent.
constexpr std::size_t kReplayLowBytes = 64 * 1024;
constexpr std::size_t kTellsBetweenLooks = 64;  // at the clock; a third of a millisecond at worst

ChatError unavailable() { return {"unavailable", "the database cannot answer now; try again"}; }

}  // namespace

std::uint64_t ChatRoom::ask(Asked::What what, WsToken token, std::string text) {
  // Around the bit that marks it: 30 bits below, 33 above.
  const std::uint64_t number = next_request_++;
  const std::uint64_t request = ((number >> 30) << 31) | kChatToken | (number & (kChatToken - 1));
  asked_.emplace(request, Asked{what, token, std::move(text)});
  return request;
}

// The session that asked, if it is still there; `asked` is filled either way.
ChatRoom::Session* ChatRoom::answered(std::uint64_t request, Asked& asked) {
  auto node = asked_.extract(request);
  if (node.empty()) return nullptr;
  asked = std::move(node.mapped());
  return find(asked.token);
}

// ---- messages ----

void ChatRoom::on_chat_put(std::uint64_t token, const PutOutcome& outcome) {
  Asked asked;
  Session* session = answered(token, asked);
  if (session == nullptr) return;
  switch (outcome.status) {
    case PutStatus::Created:
    case PutStatus::Duplicate:
      ++counters_.acks;
      --session->unsettled;
      send(*session, chat_ack(asked.text, outcome));
      return update_reading(*session);
    case PutStatus::Conflict:
      return message_failed(*session, {"id_conflict", "this message-id is taken by another message"},
                            asked.text);
    case PutStatus::OutcomeUnknown:
      return message_failed(
          *session,
          {"outcome_unknown", "the database was lost while it committed; the same message-id tells"},
          asked.text);
    case PutStatus::Unavailable:
    case PutStatus::Refused:
      return message_failed(
          *session,
          {"unavailable", outcome.detail.empty() ? "nothing was stored; try again" : outcome.detail},
          asked.text);
  }
}

// ---- registering, keys, users ----

void ChatRoom::on_owner(std::uint64_t token, const OwnerAnswer& answer) {
  Asked asked;
  Session* session = answered(token, asked);
  if (session == nullptr) return;
  if (asked.what == Asked::What::Claim) {
    if (answer.kind != OwnerAnswer::Kind::Known) return register_failed(*session, unavailable());
    if (answer.public_key != session->key_der) {
      return register_failed(*session, {"username_taken", "this name belongs to another key"});
    }
    return arrive(*session);
  }
  if (answer.kind == OwnerAnswer::Kind::Unavailable) {
    send_error(*session, unavailable());
  } else {
    send(*session, chat_key(asked.text, answer.public_key));
  }
  set_asking(*session, false);
}

// The name is ours. Who is registered can be seen by everyone, on every backend: so that comes first.
void ChatRoom::arrive(Session& session) {
  const bool first = names_[session.username]++ == 0;
  session.listed = true;
  names_changed_ = names_changed_ || first;
  arrivals_.push_back({session.token, first ? 0 : std::max<std::uint64_t>(present_, 1), loop_.now()});
  finish_arrivals();
}

void ChatRoom::on_present(std::uint64_t version) {
  present_ = version;
  finish_arrivals();
}

void ChatRoom::on_heap_timer(HeapTimer&) { finish_arrivals(); }

// In order. Nobody is registered before rows are told live: he would miss those that come meanwhile.
void ChatRoom::finish_arrivals() {
  while (!arrivals_.empty()) {
    const Arrival arrival = arrivals_.front();
    const Duration waited = loop_.now() - arrival.since;
    const bool seen = arrival.version != 0 && arrival.version <= present_;
    if (!seen && waited < kArrivalTimeout) break;
    const bool live = store_->chat().live();
    if (!live && waited < kLiveTimeout) break;
    arrivals_.pop_front();
    Session* session = find(arrival.token);
    if (session == nullptr) continue;
    if (live) {
      finish_arrival(*session);
    } else {
      register_failed(*session, {"unavailable", "this backend is still reading what there is; try again"});
    }
  }
  if (!arrivals_.empty() && !arrival_timer_.armed()) arrival_timer_.arm_at(loop_.now() + kArrivalLook);
}

void ChatRoom::finish_arrival(Session& session) {
  ++counters_.registered;
  session.state = State::Registered;
  sockets_.confirm(session.token);
  send(session, chat_registered(session.username));
  set_asking(session, false);
  if (session.after_sequence.has_value()) {
    begin_replay(session, *std::exchange(session.after_sequence, std::nullopt));
  } else {
    session.live = true;
  }
}

void ChatRoom::on_users(std::uint64_t token, const UsersAnswer& answer) {
  Asked asked;
  Session* session = answered(token, asked);
  if (session == nullptr) return;
  if (!answer.available) {
    send_error(*session, unavailable());
  } else {
    if (users_ != answer.names) {
      users_ = answer.names;
      users_frame_ = WsFrame::text(chat_users(*users_));
    }
    send(*session, users_frame_);
  }
  set_asking(*session, false);
}

// ---- history and replays ----

void ChatRoom::on_rows(std::uint64_t token, const RowsAnswer& answer) {
  Asked asked;
  Session* session = answered(token, asked);
  if (session == nullptr) return;
  if (asked.what == Asked::What::Replay) {
    if (session->replay != token) return;  // another has taken its place
    session->replay = 0;
    return take_replay(*session, answer);
  }
  if (answer.available) {
    ++counters_.histories;
    send(*session, chat_history(answer));
  } else {
    send_error(*session, unavailable());
  }
  set_asking(*session, false);
}

void ChatRoom::begin_replay(Session& session, std::int64_t after) {
  ++counters_.replays;
  session.live = false;
  session.replaying = true;
  session.replay_fresh = true;
  session.replay_empty = false;
  session.seen_through = after;
  session.replay_count = 0;
  session.replay = 0;
  set_asking(session, true);  // until it has begun: one that asks again and again is served as it is read
  continue_replay(session);
}

void ChatRoom::continue_replay(Session& session) {
  if (session.replay != 0) return;
  session.replay = ask(Asked::What::Replay, session.token);
  store_->chat().rows_after(session.seen_through, session.replay_fresh, session.replay);
}

void ChatRoom::take_replay(Session& session, const RowsAnswer& answer) {
  const bool first = std::exchange(session.replay_fresh, false);
  if (!answer.available || answer.future) {
    session.replaying = false;
    session.live = true;
    session.seen_through = 0;
    if (answer.future) {
      ++counters_.resets;
      send(session, kChatReset);
    } else {
      send_error(session, unavailable());
    }
    if (first) set_asking(session, false);
    return;
  }
  for (std::size_t i = 0; i < answer.marks.size(); ++i) {
    // Refused: it is read again from here when the socket has taken what it has.
    if (!session.held.empty() ||
        !sockets_.send_answer(session.token, WsFrame::text(chat_live(answer.row(i)))))
      break;
    session.seen_through = answer.marks[i].sequence;
    ++session.replay_count;
    ++counters_.replay_rows;
  }
  if (first) set_asking(session, false);
  const bool empty = answer.marks.empty();
  const bool all = empty || session.seen_through == answer.marks.back().sequence;
  // Rows that were told live after this page had been read are not in it, but in the next one. If that is
  // empty, somebody has deleted them.
  const bool caught_up = session.seen_through >= live_through_ || (empty && session.replay_empty);
  session.replay_empty = empty;
  if (all && !answer.has_more && caught_up) return end_replay(session);
  if (all && sockets_.queued_bytes(session.token) <= kReplayLowBytes) continue_replay(session);
}

void ChatRoom::end_replay(Session& session) {
  session.replaying = false;
  session.live = true;
  send(session, chat_resumed(session.replay_count, session.seen_through));
  session.seen_through = std::max(session.seen_through, live_through_);
}

// ---- live ----

void ChatRoom::tell_live(WsToken token, const Session& session, std::int64_t sequence,
                         std::string_view json) {
  if (!session.live || sequence <= session.seen_through) return;
  if (untold_frame_ == nullptr) untold_frame_ = WsFrame::text(chat_live(json));
  if (sockets_.send(token, untold_frame_)) ++counters_.broadcast_sends;
}

// Who comes meanwhile, or ends a replay, is past this row already: live_through_ says so from the first call
// on.
bool ChatRoom::on_live_row(std::int64_t sequence, std::string_view json, TimePoint end) {
  std::size_t told = 0;
  const auto late = [&] { return ++told % kTellsBetweenLooks == 0 && monotonic_now() >= end; };
  if (untold_.empty()) {
    live_through_ = sequence;
    ++counters_.broadcasts;
    auto next = sessions_.begin();
    while (next != sessions_.end() && !late()) {
      tell_live(next->first, next->second, sequence, json);
      ++next;
    }
    for (; next != sessions_.end(); ++next) untold_.push_back(next->first);
  } else {
    while (!untold_.empty() && !late()) {
      const WsToken token = untold_.back();
      untold_.pop_back();
      if (const Session* const session = find(token)) tell_live(token, *session, sequence, json);
    }
  }
  if (!untold_.empty()) return false;
  untold_frame_.reset();
  return true;
}

void ChatRoom::on_reset() {
  ++counters_.resets;
  live_through_ = 0;
  const WsFramePtr frame = WsFrame::text(kChatReset);
  for (auto& [token, session] : sessions_) {
    if (session.state != State::Registered) continue;
    session.seen_through = 0;
    session.replay = 0;
    if (std::exchange(session.replaying, false) && std::exchange(session.replay_fresh, false)) {
      set_asking(session, false);
    }
    session.live = true;
    sockets_.send(token, frame);
  }
}

}  // namespace dlb::backend
