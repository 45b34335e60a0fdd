// Mailbox<T>: a bounded queue from any thread to one loop, woken by an eventfd. post() never blocks: at
// `capacity` it answers false and the sender decides (drop and count, or refuse). Messages arrive in order
// per sender.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "common/event_loop.h"

namespace dlb {

template <class T>
class MailboxHandler {
 public:
  virtual void on_mail(T mail) = 0;  // on the receiving loop

 protected:
  ~MailboxHandler() = default;
};

template <class T>
class Mailbox final : public EventHandler {
 public:
  // Constructed and destroyed on the receiving loop's thread, or while that loop is not running.
  Mailbox(EventLoop& loop, MailboxHandler<T>& receiver, std::size_t capacity)
      : loop_(loop),
        receiver_(receiver),
        capacity_(capacity),
        event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    DLB_CHECK(static_cast<bool>(event_));
    auto added = loop_.add(event_.get(), *this, EventLoop::kReadOnlyEvents);
    DLB_CHECK(added.has_value());
    source_ = *added;
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox() { loop_.remove(source_, event_.get()); }

  // Any thread. False when full: nothing was queued.
  [[nodiscard]] bool post(T mail) {
    bool was_empty = false;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= capacity_) return false;
      was_empty = queue_.empty();
      queue_.push_back(std::move(mail));
    }
    if (was_empty) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written =
          ::write(event_.get(), &one, sizeof one);  // full counter: awake anyway
    }
    return true;
  }

  void on_events(std::uint32_t) override {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(event_.get(), &count, sizeof count);
    {
      const std::lock_guard lock(mutex_);
      batch_.swap(queue_);
    }
    for (T& mail : batch_) receiver_.on_mail(std::move(mail));
    batch_.clear();
  }

 private:
  EventLoop& loop_;
  MailboxHandler<T>& receiver_;
  std::size_t capacity_;
  Fd event_;
  SourceId source_;
  std::mutex mutex_;
  std::vector<T> queue_;
  std::vector<T> batch_;
};

}  // namespace dlb
