// Our own answers, and the ends of an exchange: finished, cut, abandoned.
#include <span>
#include <string>
#include <utility>

#include "common/json_writer.h"
#include "common/socket.h"
#include "lb/downstream.h"
#include "lb/exchange.h"
#include "lb/head_writer.h"
#include "lb/worker.h"

namespace dlb::lb {
namespace {

constexpr std::string_view kRetryAfter = "Retry-After: 1\r\n";

}  // namespace

void Exchange::answer(int status, std::string_view code, std::string_view detail, std::string_view extra) {
  std::string body = "{\"error\":";
  append_json_string(body, code);
  body += ",\"detail\":";
  append_json_string(body, detail);
  body += "}\n";
  if (status >= 400) {
    worker_.metrics().count_answer(status);
    note_end('L', 'R');
  }
  answer_page(status, "application/json", std::move(body), extra);
}

void Exchange::answer_page(int status, std::string_view content_type, std::string body,
                           std::string_view extra) {
  release_upstream(false);
  status_ = status;
  enter(State::Answering);
  Buffer block = worker_.acquire_block(1024 + extra.size());
  OwnHead head;
  head.status = status;
  head.content_type = content_type;
  head.content_length = body.size();
  head.keep_alive = client_keep_alive_ && request_.source_ended() && !worker_.ends_connections();
  head.http10_client = http10_client_;
  head.extra = extra;
  keep_downstream_ = head.keep_alive;
  if (!block.valid() || !write_own_head(head, block)) return cut();
  client_head_bytes_ += block.size();
  // Behind what is left of an interim response: half a head must not be cut off by ours.
  const std::string_view interim = response_.unsent_head();
  answer_.reserve(interim.size() + block.size() + body.size());
  answer_ = interim;
  answer_ += block.data();
  if (method_ != HttpMethod::Head) answer_ += body;
  pump_answer();
}

void Exchange::pump_answer() {
  Transport& transport = downstream_.transport();
  bool progress = false;
  while (answer_sent_ < answer_.size()) {
    const IoResult wrote = transport.write(std::span(answer_).subspan(answer_sent_));
    if (wrote.status == IoStatus::Error) return downstream_.close();
    if (!wrote.ok()) return wait_for(Wait::ClientWrite, progress);
    answer_sent_ += wrote.bytes;
    client_bytes_ += wrote.bytes;
    worker_.metrics().client_bytes_out.add(wrote.bytes);
    progress = true;
  }
  finish();
}

// --- the end

// 504 when a backend has the whole request and may act on it; else whoever sends it again does no harm.
bool Exchange::refuse_at_end() {
  if (state_ != State::Queued && state_ != State::Connecting && state_ != State::AwaitingHead) return false;
  const bool delivered = state_ == State::AwaitingHead && request_.complete();
  note_end('L', phase());
  worker_.leave_queue(*this);
  if (delivered) {
    answer(504, "stopping", "the balancer stops, and the backend has not answered");
  } else {
    answer(503, "stopping", "the balancer stops before a backend has got the request", kRetryAfter);
  }
  return true;
}

// Breaks the response off: what the client has of it is visibly incomplete (see abandon()), while complete
// answers before it are still delivered. Reset gives those up too.
void Exchange::cut(Cut how) {
  if (state_ == State::Responding && transport_class_ == TransportClass::Feed) {
    worker_.metrics().feed_interrupted_bodies.add();
  }
  client_keep_alive_ = false;
  if (forwarded_) {
    worker_.metrics().requests_failed.add();
    forwarded_ = false;
    worker_.metrics().requests_in_progress.sub();
  }
  if (how == Cut::Visibly && !end_would_look_complete()) {
    downstream_.transport().withhold_goodbye();
    return end(false);
  }
  set_reset_on_close(downstream_.transport().fd());
  downstream_.close();
}

// A body that ends with the connection must not be broken off by a clean end of it.
bool Exchange::end_would_look_complete() const {
  return state_ == State::Responding && response_.sink() == BodyFraming::UntilClose &&
         (!response_.source_ended() || response_waits());
}

// The response, a backend's or ours, has been handed to the kernel whole.
void Exchange::finish() {
  count_finished();
  note_end('-', '-');
  end(keep_downstream_);
}

void Exchange::count_finished() {
  WorkerMetrics& metrics = worker_.metrics();
  const TimePoint now = worker_.loop().now();
  if (forwarded_) {
    const bool success = status_ < 500;
    (success ? metrics.requests_success : metrics.requests_failed).add();
    metrics.finished(now, now - started_);
    if (transport_class_ == TransportClass::Feed) {
      if (state_ == State::Responding) {
        WorkerMetrics::record(metrics.feed_body_us, now - head_at_);
        if (success) metrics.feed_success.add();
      } else {
        metrics.feed_header_failures.add();
      }
    }
    forwarded_ = false;
    metrics.requests_in_progress.sub();
  }
}

void Exchange::end(bool keep_alive) {
  Downstream::After after = Downstream::After::Linger;
  if (request_.source_ended()) {
    if (keep_alive) after = Downstream::After::KeepAlive;
    if (client_ends_) after = Downstream::After::Close;
  }
  release_upstream(false);
  abandon();
  downstream_.exchange_done(after, request_.leftover());
}

void Exchange::abandon() {
  if (state_ == State::Done) return;
  if (access_.wanted()) log_access();
  WorkerMetrics& metrics = worker_.metrics();
  if (waiting()) {
    metrics.queue_left.add();
    worker_.leave_queue(*this);
  }
  timer_.cancel();
  set_wait(Wait::Nothing);
  pace_timer_.cancel();
  worker_.pipes().give_back(std::exchange(pipe_, {}));
  release_upstream(false);
  if (admitted_) {
    admitted_ = false;
    worker_.shared().admissions.release();
    metrics.admission_in_flight.sub();
  }
  if (retry_taken_) {
    retry_taken_ = false;
    worker_.retry_budget().give_back();
  }
  if (forwarded_) {
    forwarded_ = false;
    metrics.requests_client_gone.add();
    metrics.requests_in_progress.sub();
    if (state_ == State::Responding && transport_class_ == TransportClass::Feed) {
      metrics.feed_interrupted_bodies.add();
    }
  }
  if (end_would_look_complete()) set_reset_on_close(downstream_.transport().fd());
  enter(State::Done);
  worker_.exchanges().retire(self_);
}

// --- the access log

char Exchange::phase() const {
  switch (state_) {
    case State::Starting:
      return 'R';
    case State::Queued:
      return 'Q';
    case State::Connecting:
      return 'C';
    case State::AwaitingHead:
      return request_.source_ended() ? 'H' : 'R';
    case State::Responding:
    case State::Answering:
    case State::Done:
      return 'D';
  }
  return '-';
}

// The facts of the line so far; what was kept of the request head goes with them.
AccessRecord Exchange::access_record() {
  const TimePoint now = worker_.loop().now();
  AccessRecord record;
  record.client = downstream_.peer();
  record.note = std::move(access_);
  record.started = started_;
  record.status = status_;
  record.bytes_in = request_head_bytes_ + request_.payload_bytes();
  record.bytes_out = client_bytes_;
  record.head_out = client_head_bytes_;
  record.retries = retry_taken_ ? 1 : 0;
  record.end = end_;
  // The phases add up to the total: what a first attempt took is part of the wait for the last one.
  if (tried_count_ > 0) {
    record.backend = worker_.backends().at(choice_.backend).id;
    record.queue = picked_ - started_;
    if (connected_ >= picked_) {
      record.connect = connected_ - picked_;
      if (head_at_ >= connected_) record.response = head_at_ - connected_;
    }
  } else if (end_.phase == 'Q') {
    record.queue = now - started_;
  }
  return record;
}

// One line, told in the one place that every exchange passes at its end.
void Exchange::log_access() {
  note_end(worker_.cutting() ? 'L' : 'C', phase());
  worker_.shared().access_log->write(access_record(), worker_.loop().now());
}

}  // namespace dlb::lb
