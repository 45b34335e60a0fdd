#include "loadgen/chat_client.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <utility>

#include "common/check.h"
#include "common/clock.h"
#include "common/json_writer.h"

namespace dlb::loadgen {
namespace {

constexpr int kFailed = 1;
constexpr std::size_t kMaxMessageBytes = 64 * 1024;

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  DLB_CHECK(::getrandom(&seed, sizeof seed, 0) == sizeof seed);
  return seed;
}

std::string hint_of(std::string_view code) {
  if (code == "username_taken") return " (the name belongs to another key: --key names yours)";
  if (code == "stale_timestamp") return " (is this machine's clock right?)";
  return {};
}

}  // namespace

ChatClient::ChatClient(const Parts& parts)
    : parts_(parts),
      socket_timers_(parts.loop),
      socket_(parts.loop, socket_timers_, parts.tls, *this),
      printer_(stdout, parts.options.json),
      rng_(random_seed()),
      timers_(parts.loop) {
  // Without history to print, following needs to know where "now" is, to resume there.
  history_done_ = !parts.options.follow && parts.options.history == 0;
}

void ChatClient::note(const std::string& text) {
  std::fprintf(stderr, "loadgen chat: %s\n", escape_for_terminal(text).c_str());
}

std::string ChatClient::new_id() {
  std::array<unsigned char, 16> bytes{};
  DLB_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  std::string id;
  for (const unsigned char byte : bytes) {
    id += "0123456789abcdef"[byte >> 4U];
    id += "0123456789abcdef"[byte & 15U];
  }
  return id;
}

int ChatClient::run() {
  SignalSource signals(parts_.loop, {SIGINT, SIGTERM, SIGHUP}, *this);
  if (parts_.input >= 0) {
    more_lines_ = true;
    lines_.emplace(parts_.loop, parts_.input, *this);
  } else if (!parts_.options.send.empty()) {
    begin_message(parts_.options.send);
  }
  connect();
  parts_.loop.run();
  lines_.reset();
  return exit_code_ != 0 ? exit_code_ : failed_ > 0 || current_ ? kFailed : 0;
}

// --- the connection

void ChatClient::connect() {
  if (!parts_.options.follow && !give_up_.armed()) progress();
  if (auto opened = socket_.open(parts_.url); !opened) connect_later(opened.error().text);
}

void ChatClient::connect_later(const std::string& why) {
  if (why != last_trouble_) note(why + "; trying again");
  last_trouble_ = why;
  const auto wait = static_cast<Duration::rep>(rng_.unit() * static_cast<double>(kMaxWait.count()));
  reconnect_.arm_at(parts_.loop.now() + Duration(wait));
}

void ChatClient::on_ws_open() {
  asked_ = Asked::Register;
  replaying_ = seen_ >= 0;
  socket_.send_text(register_request(parts_.key, parts_.options.username, iso8601_utc(wall_now_us()), seen_));
}

void ChatClient::on_ws_end(const WsClientEnd& end) {
  asked_ = Asked::Nothing;
  registered_ = false;
  ask_again_.cancel();
  send_again_.cancel();
  history_.clear();
  held_.clear();
  if (current_) current_->on_its_way = false;
  if (leaving_) return parts_.loop.stop();
  if (end.hopeless && !ever_registered_) return fail(end.why);
  if (!parts_.options.follow && !give_up_.armed()) progress();
  connect_later(end.why);
}

void ChatClient::leave() {
  if (leaving_) return;
  leaving_ = true;
  reconnect_.cancel();
  if (!socket_.is_open()) return parts_.loop.stop();
  give_up_.arm_at(parts_.loop.now() + kLeaveTimeout);
  socket_.close(ws_close::kNormal, {});
}

void ChatClient::fail(const std::string& why) {
  note(why);
  exit_code_ = kFailed;
  leave();
}

void ChatClient::on_signal(int) { leave(); }

// Something has moved on: the time to give up begins anew, as long as something is waited for.
void ChatClient::progress() {
  give_up_.cancel();
  const bool waits = !registered_ || !history_done_ || current_ || !printer_.drained();
  if (!parts_.options.follow && waits) give_up_.arm_at(parts_.loop.now() + parts_.options.timeout);
}

void ChatClient::on_heap_timer(HeapTimer& timer) {
  if (&timer == &reconnect_) return connect();
  if (&timer == &give_up_) {
    if (leaving_) return parts_.loop.stop();
    return fail("no progress in time" +
                (last_trouble_.empty() ? last_trouble_ : "; the last trouble: " + last_trouble_));
  }
  if (&timer == &ask_again_) {
    asked_ = Asked::Nothing;
  } else if (current_) {
    current_->on_its_way = false;
  }
  go_on();
}

// --- what the server says

void ChatClient::on_ws_text(std::string_view text) {
  ServerSaid said = reader_.read(text);
  if (said.kind == ServerSaid::Kind::Broken) {
    socket_.drop();
    return on_ws_end({"the server doesn't speak this chat's protocol", 0, true});
  }
  take(said);
  if (printer_.broken()) return fail("the output can't be written");
  if (!leaving_) go_on();
}

void ChatClient::take(ServerSaid& said) {
  switch (said.kind) {
    case ServerSaid::Kind::Registered:
      return registered();
    case ServerSaid::Kind::Message:
      return take_live(std::move(said.messages.front()));
    case ServerSaid::Kind::History:
      return take_history(said);
    case ServerSaid::Kind::Resumed:
      replaying_ = false;
      seen_ = std::max(seen_, said.sequence);
      return;
    case ServerSaid::Kind::Reset:
      // Forget what was, and look anew; a history that was asked for already is of the new table.
      printer_.reset();
      held_.clear();
      history_.clear();
      seen_ = -1;
      replaying_ = false;
      if (parts_.options.follow) {
        note("the server's history begins anew");
        history_done_ = false;
      }
      return;
    case ServerSaid::Kind::Ack:
      if (current_ && current_->id == said.id) message_done(true);
      return;
    case ServerSaid::Kind::Key:
      if (asked_ == Asked::Key) asked_ = Asked::Nothing;
      printer_.key_of(said.name, said.public_key);
      return progress();
    case ServerSaid::Kind::Error:
      return take_error(said);
    case ServerSaid::Kind::Unknown:
    case ServerSaid::Kind::Pong:
    case ServerSaid::Kind::Broken:
      return;
  }
}

void ChatClient::registered() {
  if (asked_ == Asked::Register) asked_ = Asked::Nothing;
  if (parts_.options.follow && !last_trouble_.empty()) note("connected again");
  registered_ = ever_registered_ = true;
  last_trouble_.clear();
  if (seen_ >= 0) history_done_ = true;
  progress();
}

void ChatClient::take_live(ChatMessage message) {
  if (!parts_.options.follow) return;
  if (!history_done_) {
    held_.push_back(std::move(message));
    return;
  }
  seen_ = std::max(seen_, message.sequence);
  printer_.add(std::move(message));
}

void ChatClient::take_history(ServerSaid& said) {
  if (asked_ != Asked::History) return;
  asked_ = Asked::Nothing;
  said.messages.insert(said.messages.end(), std::make_move_iterator(history_.begin()),
                       std::make_move_iterator(history_.end()));
  history_ = std::move(said.messages);
  progress();
  const auto have = static_cast<std::int64_t>(history_.size());
  if (have < parts_.options.history && said.next_before > 0) return;  // ask_next() wants the page before

  seen_ = std::max<std::int64_t>(seen_, history_.empty() ? 0 : history_.back().sequence);
  const std::int64_t skipped = std::max<std::int64_t>(0, have - parts_.options.history);
  for (auto row = history_.begin() + skipped; row != history_.end(); ++row) printer_.add(std::move(*row));
  history_done_ = true;
  for (ChatMessage& message : std::exchange(held_, {})) {
    if (message.sequence > seen_) take_live(std::move(message));
  }
  history_.clear();
  progress();
}

void ChatClient::take_error(const ServerSaid& said) {
  const std::string words = said.code + ": " + said.detail + hint_of(said.code);
  if (said.code == "not_registered") {
    socket_.drop();
    return on_ws_end({words, 0, false});
  }
  if (!said.id.empty()) {
    if (!current_ || current_->id != said.id) return;
    if (error_passes(said.code)) {
      last_trouble_ = words;
      send_again_.arm_at(parts_.loop.now() + kAgain);
      return;
    }
    note("not sent: " + words);
    return message_done(false);
  }
  const Asked asked = std::exchange(asked_, Asked::Nothing);
  if (asked == Asked::Key && !error_passes(said.code)) {
    const std::string name(printer_.wanted_key());
    printer_.key_of(name, {});
  } else if (asked == Asked::Register && error_passes(said.code)) {
    socket_.drop();
    on_ws_end({words, 0, false});
  } else if (asked == Asked::Register || (asked == Asked::History && !error_passes(said.code))) {
    fail(words);
  } else if (asked != Asked::Nothing) {
    asked_ = asked;
    last_trouble_ = words;
    ask_again_.arm_at(parts_.loop.now() + kAgain);
  } else {
    note(words);
  }
}

// --- what comes next

void ChatClient::go_on() {
  if (leaving_) return;
  if (registered_) {
    ask_next();
    send_current();
  }
  if (all_done()) leave();
}

void ChatClient::ask_next() {
  if (asked_ != Asked::Nothing) return;
  if (!history_done_) {
    const std::int64_t have = static_cast<std::int64_t>(history_.size());
    const std::int64_t wanted = std::clamp<std::int64_t>(parts_.options.history - have, 1, kHistoryPage);
    asked_ = Asked::History;
    return socket_.send_text(history_request(wanted, have == 0 ? 0 : history_.front().sequence));
  }
  if (printer_.wanted_key().empty()) return;
  asked_ = Asked::Key;
  socket_.send_text(key_request(printer_.wanted_key()));
}

void ChatClient::send_current() {
  if (!history_done_ || replaying_) return;
  if (!current_ && more_lines_) return lines_->wait_line();
  if (!current_ || current_->on_its_way) return;
  current_->on_its_way = true;
  socket_.send_text(message_request(parts_.key, parts_.options.username, current_->id, current_->text));
  send_again_.arm_at(parts_.loop.now() + kAckTimeout);
}

void ChatClient::begin_message(std::string text) {
  current_ = Outgoing{new_id(), std::move(text), false};
  progress();
}

void ChatClient::message_done(bool stored) {
  if (!stored) ++failed_;
  current_.reset();
  send_again_.cancel();
  progress();
}

bool ChatClient::all_done() const {
  return registered_ && !parts_.options.follow && history_done_ && !current_ && !more_lines_ &&
         printer_.drained();
}

// --- lines

void ChatClient::on_line(std::string line) {
  if (line.empty()) return go_on();
  if (line.size() > kMaxMessageBytes) return on_long_line();
  if (!is_valid_utf8(line)) {
    note("a line is not UTF-8, and was not sent");
    ++failed_;
    return go_on();
  }
  begin_message(std::move(line));
  go_on();
}

void ChatClient::on_long_line() {
  note("a line is over 64 KiB, and was not sent");
  ++failed_;
  go_on();
}

void ChatClient::on_lines_end() {
  more_lines_ = false;
  go_on();
}

}  // namespace dlb::loadgen
