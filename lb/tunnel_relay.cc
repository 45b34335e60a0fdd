#include "lb/tunnel_relay.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace dlb::lb {

void TunnelRelay::prepend(Buffer first) {
  if (!first.valid() || first.empty()) return;
  for (Buffer& place : first_) {
    if (place.valid()) continue;
    place = std::move(first);
    return;
  }
  DLB_CHECK(false);
}

bool TunnelRelay::anything_to_send() const {
  return !block_.empty() ||
         std::any_of(first_.begin(), first_.end(), [](const Buffer& b) { return !b.empty(); });
}

TunnelRelay::Pumped TunnelRelay::pump(Transport& source, Transport& sink, BufferPool& blocks) {
  Pumped out;
  bool moved = true;
  for (int step = 0; moved && !finished() && step < kStepsPerTurn; ++step) {
    moved = move_block(source, sink, blocks, out);
    if (state_ == State::Ending && !anything_to_send()) end(sink, out);
  }
  out.progress = out.progress || out.read > 0 || out.written > 0;
  out.more = moved && !finished();
  if (block_.valid() && block_.empty()) block_.reset();
  return out;
}

// One write and one read. False when neither could do anything.
bool TunnelRelay::move_block(Transport& source, Transport& sink, BufferPool& blocks, Pumped& out) {
  const bool wrote = write(sink, out);
  const bool got = read(source, blocks, out);
  return wrote || got;
}

bool TunnelRelay::write(Transport& sink, Pumped& out) {
  if (finished() || !sink.write_ready() || !anything_to_send()) return false;
  std::array<iovec, kFirsts + 1> parts;
  int count = 0;
  const auto add = [&](Buffer& from) {
    if (!from.empty()) parts[static_cast<std::size_t>(count++)] = iovec{from.begin(), from.size()};
  };
  for (Buffer& first : first_) add(first);
  add(block_);
  const IoResult wrote = sink.writev(parts.data(), count);
  if (wrote.status == IoStatus::Error) {
    sink_gone_ = true;
    abandon();
    return false;
  }
  if (!wrote.ok()) return false;
  std::size_t left = wrote.bytes;
  for (Buffer& first : first_) {
    if (!first.valid()) continue;
    const std::size_t taken = std::min(left, first.size());
    first.consume(taken);
    left -= taken;
    if (first.empty()) first.reset();
  }
  if (left > 0) block_.consume(left);
  out.written += wrote.bytes;
  return true;
}

bool TunnelRelay::read(Transport& source, BufferPool& blocks, Pumped& out) {
  if (state_ != State::Open || !source.read_ready()) return false;
  if (!block_.valid()) {
    block_ = blocks.acquire();
    if (!block_.valid()) {  // bounded by the connections that may hold one: memory is out
      sink_gone_ = true;
      abandon();
      return false;
    }
  }
  if (block_.writable().empty()) return false;
  const IoResult got = source.read(block_.writable());
  if (got.status == IoStatus::WouldBlock) return false;
  if (!got.ok()) {
    if (got.status == IoStatus::Error) broken_ = true;
    state_ = State::Ending;
    return true;
  }
  block_.commit(got.bytes);
  out.read += got.bytes;
  return true;
}

void TunnelRelay::end(Transport& sink, Pumped& out) {
  state_ = State::Finished;
  out.progress = true;
  if (!broken_) sink.shutdown_write();
}

void TunnelRelay::abandon() {
  state_ = State::Finished;
  broken_ = true;
  block_.reset();
  for (Buffer& first : first_) first.reset();
}

}  // namespace dlb::lb
