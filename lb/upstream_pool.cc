#include "lb/upstream_pool.h"

#include "common/check.h"

namespace dlb::lb {

UpstreamPool::UpstreamPool(std::size_t backends, std::size_t max_idle, std::size_t max_idle_per_backend)
    : lists_(backends * 2), max_idle_(max_idle), max_idle_per_backend_(max_idle_per_backend) {}

void UpstreamPool::apply(std::size_t backends, std::size_t max_idle, std::size_t max_idle_per_backend) {
  DLB_CHECK(backends * 2 >= lists_.size());
  lists_.resize(backends * 2);
  max_idle_ = max_idle;
  max_idle_per_backend_ = max_idle_per_backend;
  for (List& list : lists_) {
    while (list.size > max_idle_per_backend_) list.first->close();
  }
  while (idle_ > max_idle_ && close_one()) continue;
}

Upstream* UpstreamPool::take(std::uint32_t backend, TransportClass transport_class) {
  Upstream* upstream = list_of(backend, transport_class).first;
  if (upstream != nullptr) remove(*upstream);
  return upstream;
}

void UpstreamPool::put(Upstream& upstream) {
  List& list = list_of(upstream.backend_, upstream.transport_class_);
  if (idle_ >= max_idle_ || list.size >= max_idle_per_backend_) {
    upstream.close();
    return;
  }
  upstream.pool_prev_ = nullptr;
  upstream.pool_next_ = list.first;
  if (list.first != nullptr) list.first->pool_prev_ = &upstream;
  list.first = &upstream;
  ++list.size;
  ++idle_;
  upstream.rest();
}

void UpstreamPool::remove(Upstream& upstream) {
  List& list = list_of(upstream.backend_, upstream.transport_class_);
  DLB_CHECK(list.size > 0);
  if (upstream.pool_prev_ != nullptr) {
    upstream.pool_prev_->pool_next_ = upstream.pool_next_;
  } else {
    list.first = upstream.pool_next_;
  }
  if (upstream.pool_next_ != nullptr) upstream.pool_next_->pool_prev_ = upstream.pool_prev_;
  upstream.pool_prev_ = upstream.pool_next_ = nullptr;
  --list.size;
  --idle_;
}

void UpstreamPool::close_idle(std::uint32_t backend) {
  for (const TransportClass one : {TransportClass::Message, TransportClass::Feed}) {
    while (Upstream* upstream = list_of(backend, one).first) upstream->close();
  }
}

bool UpstreamPool::close_one() {
  for (List& list : lists_) {
    if (list.first == nullptr) continue;
    list.first->close();
    return true;
  }
  return false;
}

void UpstreamPool::close_all() {
  for (List& list : lists_) {
    while (list.first != nullptr) list.first->close();
  }
}

}  // namespace dlb::lb
