#include "common/ws_queue.h"

#include <utility>

namespace dlb {

void WsQueue::push(WsFramePtr frame, Kind kind) {
  cost_[static_cast<std::size_t>(kind)] += cost(*frame);
  entries_.push_back({std::move(frame), kind});
}

int WsQueue::gather(std::span<iovec> parts) const {
  std::size_t offset = offset_;
  std::size_t count = 0;
  for (std::size_t i = head_; i < entries_.size() && count < parts.size(); ++i) {
    const std::string_view bytes = entries_[i].frame->bytes().substr(offset);
    parts[count++] = {const_cast<char*>(bytes.data()), bytes.size()};
    offset = 0;
  }
  return static_cast<int>(count);
}

void WsQueue::advance(std::size_t bytes) {
  bytes += offset_;
  while (!empty() && bytes >= entries_[head_].frame->size()) {
    bytes -= entries_[head_].frame->size();
    pop();
  }
  offset_ = bytes;
  pack();
}

void WsQueue::pop() {
  Entry& entry = entries_[head_++];
  cost_[static_cast<std::size_t>(entry.kind)] -= cost(*entry.frame);
  entry.frame.reset();
}

// Each entry is moved at most once for each that went before it.
void WsQueue::pack() {
  if (empty()) {
    entries_.clear();
    head_ = 0;
    if (entries_.capacity() > kKeptEntries) std::vector<Entry>().swap(entries_);
  } else if (head_ >= 64 && head_ * 2 >= entries_.size()) {
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
}

void WsQueue::drop_behind(std::size_t presented) {
  std::size_t kept = 0;  // unsent bytes of what stays
  std::size_t end = head_;
  while (end < entries_.size() && (kept < presented || (end == head_ && offset_ > 0))) {
    kept += entries_[end].frame->size() - (end == head_ ? offset_ : 0);
    ++end;
  }
  for (std::size_t i = end; i < entries_.size(); ++i) {
    cost_[static_cast<std::size_t>(entries_[i].kind)] -= cost(*entries_[i].frame);
  }
  entries_.resize(end);
  pack();
}

}  // namespace dlb
