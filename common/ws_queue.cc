#include "common/ws_queue.h"

#include <utility>

namespace dlb {

void WsQueue::push(WsFramePtr frame, Kind kind) {
  cost_[static_cast<std::size_t>(kind)] += cost(*frame);
  if (entries_ == nullptr) entries_ = std::make_unique<std::deque<Entry>>();
  entries_->push_back({std::move(frame), kind});
}

int WsQueue::gather(std::span<iovec> parts) const {
  if (empty()) return 0;
  std::size_t offset = offset_;
  std::size_t count = 0;
  for (const Entry& entry : *entries_) {
    if (count == parts.size()) break;
    const std::string_view bytes = entry.frame->bytes().substr(offset);
    parts[count++] = {const_cast<char*>(bytes.data()), bytes.size()};
    offset = 0;
  }
  return static_cast<int>(count);
}

void WsQueue::advance(std::size_t bytes) {
  if (empty()) return;
  bytes += offset_;
  while (!entries_->empty() && bytes >= entries_->front().frame->size()) {
    bytes -= entries_->front().frame->size();
    pop();
  }
  offset_ = bytes;
  free_if_empty();
}

void WsQueue::pop() {
  const Entry& entry = entries_->front();
  cost_[static_cast<std::size_t>(entry.kind)] -= cost(*entry.frame);
  entries_->pop_front();
}

void WsQueue::free_if_empty() {
  if (entries_->empty()) entries_.reset();
}

void WsQueue::drop_behind(std::size_t presented) {
  if (empty()) return;
  std::size_t kept = 0;  // unsent bytes of what stays
  std::size_t end = 0;
  while (end < entries_->size() && (kept < presented || (end == 0 && offset_ > 0))) {
    kept += (*entries_)[end].frame->size() - (end == 0 ? offset_ : 0);
    ++end;
  }
  while (entries_->size() > end) {
    const Entry& entry = entries_->back();
    cost_[static_cast<std::size_t>(entry.kind)] -= cost(*entry.frame);
    entries_->pop_back();
  }
  free_if_empty();
}

}  // namespace dlb
