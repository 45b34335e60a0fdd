#include "common/http_probe.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "common/socket.h"

namespace dlb {
namespace {

constexpr std::size_t kReadBytes = 16 * 1024;
constexpr HeadLimits kHeadLimits{};

std::string request_text(const ProbeRequest& request) {
  std::string text(request.method == ProbeMethod::Head ? "HEAD " : "GET ");
  text.append(request.path).append(" HTTP/1.1\r\nHost: ");
  if (!request.host.empty()) {
    text.append(request.host);
  } else {
    text.append(request.address.is_unix() ? "localhost" : request.address.to_string());
  }
  text.append("\r\nUser-Agent: ").append(request.user_agent);
  text.append("\r\nAccept: */*\r\nConnection: close\r\n\r\n");
  return text;
}

}  // namespace

HttpProbe::HttpProbe(EventLoop& loop, TimerHeap& timers, HttpProbeHandler& handler)
    : loop_(loop), handler_(handler), deadline_(timers, *this) {}

bool HttpProbe::start(const ProbeRequest& request) {
  if (running_) return false;
  running_ = true;
  started_ = loop_.now();
  method_ = request.method;
  address_ = request.address;
  request_ = method_ == ProbeMethod::Tcp ? std::string() : request_text(request);
  sent_ = scanned_ = 0;
  interim_ = status_ = 0;
  reading_ = Reading::Head;
  connected_ = body_cut_ = false;
  connecting_ = true;
  deadline_.arm_at(started_ + request.timeout);

  bool in_progress = false;
  auto fd = connect_start(address_, &in_progress);
  if (fd) {
    transport_ =
        Transport(std::move(*fd), /*connecting=*/true);  // connected at once or not: the first edge says it
    if (auto attached = transport_.attach(loop_, *this); attached) return true;
    transport_ = Transport();
    early_error_ = "the probe's socket can't be watched";
    early_failure_ = ProbeFailure::OurFault;
  } else {
    early_error_ = fd.error().text;
    early_failure_ = is_descriptor_shortage(fd.error().code) ? ProbeFailure::OurFault : ProbeFailure::Connect;
  }
  deadline_.arm_at(started_);  // the verdict comes within this turn, not within this call
  return true;
}

void HttpProbe::cancel() {
  deadline_.cancel();
  transport_.close(loop_);
  input_ = std::string();
  early_error_.clear();
  running_ = false;
}

void HttpProbe::finish(ProbeFailure failure, std::string_view error) {
  const std::string error_text(error);  // it may lie in what cancel() clears
  const std::string body = std::exchange(body_, {});
  ProbeResult result;
  result.failure = failure;
  result.connected = connected_;
  result.status = status_;
  result.body = body;
  result.body_cut = body_cut_;
  result.error = error_text;
  result.duration = loop_.now() - started_;
  cancel();
  handler_.on_probe_done(*this, result);
}

void HttpProbe::on_heap_timer(HeapTimer&) {
  if (!early_error_.empty()) {
    finish(early_failure_, early_error_);
  } else {
    const std::string where = (connected_ ? "no whole answer in time from " : "no connection in time to ");
    finish(ProbeFailure::Timeout, where + address_.to_string());
  }
}

void HttpProbe::on_events(std::uint32_t events) {
  transport_.note_events(events);
  if (connecting_ && !connect_completed()) return;
  send_rest();
  if (running_) read_answer();
}

// False while it goes on, and when the probe has ended here.
bool HttpProbe::connect_completed() {
  if (!transport_.write_ready()) return false;
  connecting_ = false;
  if (const int err = take_socket_error(transport_.fd()); err != 0) {
    finish(ProbeFailure::Connect, errno_error("connect " + address_.to_string(), err).text);
    return false;
  }
  connected_ = true;
  if (method_ != ProbeMethod::Tcp) return true;
  finish(ProbeFailure::None, {});
  return false;
}

void HttpProbe::send_rest() {
  while (sent_ < request_.size()) {
    const IoResult sent = transport_.write(std::string_view(request_).substr(sent_));
    if (sent.status == IoStatus::WouldBlock) return;
    if (!sent.ok()) return;  // the answer may be there all the same: reading tells
    sent_ += sent.bytes;
  }
}

void HttpProbe::read_answer() {
  std::array<char, kReadBytes> block;
  while (true) {
    const IoResult got = transport_.read(block);
    if (got.status == IoStatus::WouldBlock) return;
    if (got.ok()) {
      input_.append(block.data(), got.bytes);
      if (take_input()) return;
      continue;
    }
    if (got.status == IoStatus::Eof && reading_ == Reading::Body && framing_ == BodyFraming::UntilClose) {
      finish(ProbeFailure::None, {});
    } else if (got.status == IoStatus::Eof) {
      finish(ProbeFailure::Broken, "closed before a whole answer by " + address_.to_string());
    } else {
      finish(ProbeFailure::Broken, errno_error("read " + address_.to_string(), got.err).text);
    }
    return;
  }
}

bool HttpProbe::take_input() {
  if (reading_ == Reading::Head && take_head()) return true;
  return reading_ == Reading::Body && take_body();
}

bool HttpProbe::take_head() {
  const auto head = std::make_unique<ResponseHead>();
  const HttpMethod method = method_ == ProbeMethod::Head ? HttpMethod::Head : HttpMethod::Get;
  while (true) {
    const ParseResult result = parser_.parse_response(input_, scanned_, kHeadLimits, method, *head);
    if (result.status == ParseStatus::NeedMore) return false;
    if (result.status == ParseStatus::Bad) {
      finish(ProbeFailure::Malformed,
             std::string("answer of ") + address_.to_string() + ": " + std::string(result.reason));
      return true;
    }
    input_.erase(0, result.head_bytes);
    scanned_ = 0;
    if (head->status >= 200) break;
    if (++interim_ > kMaxInterim || head->status == 101) {
      finish(ProbeFailure::Malformed, "no final answer from " + address_.to_string());
      return true;
    }
  }
  status_ = head->status;
  framing_ = head->framing;
  remaining_ = head->content_length;
  decoder_.reset();
  reading_ = Reading::Body;
  return false;
}

bool HttpProbe::take_body() {
  bool whole = false;
  switch (framing_) {
    case BodyFraming::None:
      whole = true;
      break;
    case BodyFraming::Length: {
      const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, input_.size()));
      remaining_ -= taken;
      whole = add_body(std::string_view(input_).substr(0, taken)) || remaining_ == 0;
      input_.clear();
      break;
    }
    case BodyFraming::UntilClose:
      whole = add_body(input_);
      input_.clear();
      break;
    case BodyFraming::Chunked:
      return take_chunks();
  }
  if (whole) finish(ProbeFailure::None, {});
  return whole;
}

bool HttpProbe::take_chunks() {
  std::string_view rest = input_;
  while (true) {
    const ChunkDecoder::Step step = decoder_.next(rest);
    rest.remove_prefix(step.consumed);
    if (step.status == ChunkDecoder::Status::NeedMore) break;
    if (step.status == ChunkDecoder::Status::Bad) {
      finish(ProbeFailure::Malformed,
             std::string("answer of ") + address_.to_string() + ": " + std::string(step.reason));
      return true;
    }
    if (step.status == ChunkDecoder::Status::End ||
        (step.status == ChunkDecoder::Status::Data && add_body(step.data))) {
      finish(ProbeFailure::None, {});
      return true;
    }
  }
  input_.erase(0, input_.size() - rest.size());
  return false;
}

bool HttpProbe::add_body(std::string_view bytes) {
  const std::size_t room = kMaxBodyBytes - body_.size();
  body_cut_ = bytes.size() > room;
  body_.append(bytes.substr(0, room));
  return body_cut_;
}

}  // namespace dlb
