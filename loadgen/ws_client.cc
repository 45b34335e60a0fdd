#include "loadgen/ws_client.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/address.h"
#include "common/base64.h"
#include "common/check.h"
#include "common/socket.h"
#include "common/ws_handshake.h"
#include "loadgen/chat_text.h"

namespace dlb::loadgen {
namespace {

constexpr HeadLimits kHeadLimits{32 * 1024, 8 * 1024};

// Masks and keys are to be unpredictable (RFC 6455 sections 4.1 and 5.3).
void fill_random(void* into, std::size_t bytes) {
  DLB_CHECK(::getrandom(into, bytes, 0) == static_cast<ssize_t>(bytes));  // up to 256 bytes are never cut
}

WsDecoder fresh_decoder() { return WsDecoder(WsDecoder::Side::Client, WsClient::kMaxMessageBytes, false); }

std::string close_text(std::uint16_t code, std::string_view reason) {
  std::string text = "closed by the server";
  if (code != ws_close::kNone) text += " (" + std::to_string(code) + ")";
  if (!reason.empty()) text += ": " + escape_for_terminal(reason);
  return text;
}

}  // namespace

WsClientTimers::WsClientTimers(EventLoop& loop)
    : steps(loop, WsClient::kStepTimeout), silences(loop, WsClient::kSilence) {}

WsClient::WsClient(EventLoop& loop, WsClientTimers& timers, const TlsContext* tls, WsClientUser& user,
                   std::size_t read_bytes)
    : loop_(loop),
      timers_(timers),
      tls_(tls),
      user_(user),
      decoder_(fresh_decoder()),
      read_bytes_(read_bytes) {}

std::string WsClient::what(std::string_view step) const { return std::string(step) + " " + url_.authority; }

Result<void> WsClient::open(const WsUrl& url) {
  DLB_CHECK(state_ == State::Idle && (!url.tls || tls_ != nullptr));
  url_ = url;
  auto address = Address::parse(url.place);
  if (!address) return address.error();
  bool in_progress = false;
  auto fd = connect_start(*address, &in_progress);
  if (!fd) return fd.error();
  transport_ = Transport(std::move(*fd), true);
  if (auto attached = transport_.attach(loop_, *this); !attached) {
    transport_.close(loop_);
    return attached;
  }
  ++connection_;
  state_ = State::Connecting;
  input_.resize(read_bytes_);
  input_bytes_ = scanned_ = 0;
  message_.clear();
  unsent_.clear();
  decoder_ = fresh_decoder();
  pinged_ = false;
  timers_.steps.arm(step_);
  return {};
}

void WsClient::drop() {
  step_.cancel();
  silence_.cancel();
  transport_.close(loop_);
  state_ = State::Idle;
}

void WsClient::end(WsClientEnd end) {
  drop();
  user_.on_ws_end(end);
}

void WsClient::send_text(std::string_view text) {
  if (state_ == State::Open) send_frame(WsOpcode::Text, text);
}

void WsClient::close(std::uint16_t code, std::string_view reason) {
  if (state_ != State::Open) return;
  state_ = State::Closing;
  closing_ = {"closed", 0, false};
  silence_.cancel();
  timers_.steps.arm(step_);
  send_frame(WsOpcode::Close, ws_close_payload(code, reason));
}

void WsClient::send_frame(WsOpcode opcode, std::string_view payload) {
  std::uint32_t mask = 0;
  fill_random(&mask, sizeof mask);
  append_masked_ws_frame(unsent_, opcode, payload, mask);
  flush();
}

// What can't be written now goes with the next edge. A broken socket shows itself to the next read, behind
// what the peer said last.
void WsClient::flush() {
  while (!unsent_.empty()) {
    const IoResult written = transport_.write(unsent_);
    if (written.status == IoStatus::WouldBlock) return;
    if (!written.ok()) {
      unsent_.clear();
      transport_.note_events(EPOLLIN);
      loop_.make_runnable(transport_.source());
      return;
    }
    unsent_.erase(0, written.bytes);
  }
}

void WsClient::on_events(std::uint32_t events) {
  transport_.note_events(events);
  switch (state_) {
    case State::Idle:
      return;
    case State::Connecting:
      if (transport_.write_ready() || transport_.hung_up()) finish_connect();
      return;
    case State::Handshaking:
      shake_hands();
      return;
    case State::Upgrading:
    case State::Open:
    case State::Closing:
      flush();
      read_some();
      return;
  }
}

void WsClient::on_timer(Timer& timer) {
  if (&timer == &step_) {
    if (state_ == State::Closing) return end(std::move(closing_));
    return end(what("no answer in time from"));
  }
  if (pinged_) return end(what("no sign of life from"));
  pinged_ = true;
  timers_.silences.arm(silence_);
  send_frame(WsOpcode::Ping, {});
}

void WsClient::finish_connect() {
  const int err = take_socket_error(transport_.fd());
  if (err != 0) return end(errno_error(what("connect"), err).text);
  if (!url_.tls) return begin_upgrade();
  state_ = State::Handshaking;
  if (!transport_.start_tls_client(*tls_, url_.host)) {
    return end(what("TLS can't be set up for"), true);
  }
  shake_hands();
}

void WsClient::shake_hands() {
  const IoResult result = transport_.handshake();
  if (result.status == IoStatus::WouldBlock) return;
  if (result.ok()) return begin_upgrade();
  const std::string distrust = transport_.tls()->distrust();
  if (!distrust.empty()) {
    return end("the certificate of " + url_.authority + " is not believed: " + distrust +
                   "; --ca FILE names whom to believe, --insecure believes anyone",
               true);
  }
  end(what("no TLS with"));
}

void WsClient::begin_upgrade() {
  state_ = State::Upgrading;
  char nonce[16];
  fill_random(nonce, sizeof nonce);
  key_ = base64_encode({nonce, sizeof nonce});
  unsent_ =
      "GET " + url_.target + " HTTP/1.1\r\nHost: " + url_.authority +
      "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
      key_ + "\r\n\r\n";
  flush();
  read_some();
}

void WsClient::read_some() {
  const std::uint64_t connection = connection_;
  for (int reads = 0; state_ != State::Idle && connection == connection_; ++reads) {
    if (reads == kReadsPerTurn) return loop_.make_runnable(transport_.source());
    if (input_bytes_ == input_.size()) return end(what("an endless head from"));
    const IoResult got = transport_.read(std::span(input_).subspan(input_bytes_));
    if (got.status == IoStatus::WouldBlock) return;
    if (!got.ok()) {
      if (state_ == State::Closing) return end(std::move(closing_));
      return got.status == IoStatus::Eof ? end(what("connection closed by"))
                                         : end(errno_error(what("connection to"), got.err).text);
    }
    input_bytes_ += got.bytes;
    pinged_ = false;
    if (state_ == State::Open) timers_.silences.arm(silence_);
    if (state_ == State::Upgrading && !take_upgrade()) return;
    if (state_ != State::Upgrading && !take_frames()) return;
  }
}

// False when the connection is over.
bool WsClient::take_upgrade() {
  const std::string_view bytes(input_.data(), input_bytes_);
  const ParseResult parsed = parser_.parse_response(bytes, scanned_, kHeadLimits, HttpMethod::Get, head_);
  if (parsed.status == ParseStatus::NeedMore) return true;
  if (parsed.status == ParseStatus::Bad) {
    end(what("no HTTP from"), true);
    return false;
  }
  if (!accepted(head_)) {
    // 5xx: it drains, or is full; that passes.
    end(what("no WebSocket at") + url_.target + ": the server answered " + std::to_string(head_.status),
        head_.status < 500);
    return false;
  }
  input_bytes_ -= parsed.head_bytes;
  std::memmove(input_.data(), input_.data() + parsed.head_bytes, input_bytes_);
  step_.cancel();
  timers_.silences.arm(silence_);
  state_ = State::Open;
  const std::uint64_t connection = connection_;
  user_.on_ws_open();
  return connection == connection_ && state_ != State::Idle;
}

bool WsClient::accepted(const ResponseHead& head) {
  const HeaderField* const accept = head.fields.find("Sec-WebSocket-Accept");
  return head.status == 101 && accept != nullptr && accept->value == ws_accept_value(key_) &&
         equals_ignoring_case(head.fields.value(HeaderId::Upgrade), "websocket") &&
         head.fields.find("Sec-WebSocket-Extensions") == nullptr;
}

bool WsClient::take_frames() {
  std::size_t at = 0;
  for (;;) {
    const WsPart part = decoder_.next(std::span(input_).subspan(at, input_bytes_ - at));
    at += part.consumed;
    if (part.kind == WsPart::Kind::NeedMore) break;
    if (!take_part(part)) return false;
  }
  input_bytes_ -= at;
  std::memmove(input_.data(), input_.data() + at, input_bytes_);
  return true;
}

// False when the connection is over, or another one.
bool WsClient::take_part(const WsPart& part) {
  const std::uint64_t connection = connection_;
  switch (part.kind) {
    case WsPart::Kind::NeedMore:
    case WsPart::Kind::Pong:
      break;
    case WsPart::Kind::Ping:
      // Only the latest ping needs an answer: who sends them and reads nothing gets no more of them.
      if (state_ == State::Open && unsent_.size() < kUnsentForPongs) send_frame(WsOpcode::Pong, part.payload);
      break;
    case WsPart::Kind::Data:
      if (part.first && part.last) {
        if (state_ == State::Open) user_.on_ws_text(part.payload);
      } else {
        if (part.first) message_.clear();
        message_ += part.payload;
        if (part.last && state_ == State::Open) {
          const std::string whole = std::exchange(message_, {});
          user_.on_ws_text(whole);
        }
      }
      break;
    case WsPart::Kind::Close: {
      WsClientEnd said{close_text(part.code, part.payload),
                       part.code == ws_close::kNone ? std::uint16_t{0} : part.code, false};
      if (state_ == State::Open) send_frame(WsOpcode::Close, ws_close_payload(part.code, {}));
      end(state_ == State::Closing ? std::move(closing_) : std::move(said));
      return false;
    }
    case WsPart::Kind::Fail:
      if (state_ == State::Open) send_frame(WsOpcode::Close, ws_close_payload(part.code, part.reason));
      end("the server broke the protocol: " + std::string(part.reason));
      return false;
  }
  return connection == connection_ && state_ != State::Idle;
}

}  // namespace dlb::loadgen
