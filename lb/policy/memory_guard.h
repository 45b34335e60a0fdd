// MemoryGuard: when the balancer itself sheds load to stay inside its memory (L18), and when sockets get
// small buffers (L16). Readings in, state and reason out; it reads no file and no clock.
//
//   shedding       on at a limit; off again when memory is 5 points, and socket bytes 5 % of their limit,
//   below clear          both are below the points at which shedding would end: a connection burst is welcome
//   small buffers  on when socket memory passes half of its limit, off below 45 % of it
//
// A reading that is not known (-1) neither turns anything on nor keeps it on.
#pragma once

#include <cstdint>

namespace dlb::lb {

struct MemoryReading {
  double unreclaimable_percent = -1;  // of the tightest limit
  std::int64_t socket_bytes = -1;
};

struct MemoryLimits {
  double max_percent = 80;
  std::int64_t max_socket_bytes = 0;  // 0: no limit
};

class MemoryGuard {
 public:
  enum class Reason : std::uint8_t { None, Memory, Sockets };

  explicit MemoryGuard(const MemoryLimits& limits) : limits_(limits) {}

  // True when shedding was turned on or off by this reading.
  bool update(const MemoryReading& reading) {
    const auto sockets = static_cast<double>(reading.socket_bytes);
    const auto limit = static_cast<double>(limits_.max_socket_bytes);
    const bool limited = limits_.max_socket_bytes > 0;
    const bool memory_over = reading.unreclaimable_percent >= limits_.max_percent;
    const bool sockets_over = limited && sockets >= limit;
    clear_ = reading.unreclaimable_percent < limits_.max_percent - kBackPoints &&
             !(limited && sockets >= limit * (1 - kBackShare));
    small_buffers_ = limited && sockets > limit * (small_buffers_ ? kSmallOff : kSmallOn);
    const bool was = shedding();
    if (memory_over || sockets_over) {
      if (!was) reason_ = memory_over ? Reason::Memory : Reason::Sockets;
    } else if (clear_) {
      reason_ = Reason::None;
    }
    return shedding() != was;
  }

  // Of the readings from now on.
  void set_limits(const MemoryLimits& limits) { limits_ = limits; }

  bool shedding() const { return reason_ != Reason::None; }
  // What turned it on.
  Reason reason() const { return reason_; }
  bool clear() const { return clear_; }
  bool small_buffers() const { return small_buffers_; }

 private:
  static constexpr double kBackPoints = 5;
  static constexpr double kBackShare = 0.05;
  static constexpr double kSmallOn = 0.5;
  static constexpr double kSmallOff = 0.45;

  MemoryLimits limits_;
  Reason reason_ = Reason::None;
  bool clear_ = true;
  bool small_buffers_ = false;
};

}  // namespace dlb::lb
