// AutoscaleFigures: what pages and metrics show of autoscaling. Written on the control thread, read by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "common/json_writer.h"

namespace dlb::lb {

// One instance as of the last turn.
struct AutoscaleInstance {
  std::string id;
  int pid = 0;               // 0: not known yet
  std::string_view phase{};  // static
  bool rests = false;
  std::uint32_t in_flight = 0;
};

// What was decided last.
struct AutoscaleEvent {
  std::string_view action{};  // static; empty: nothing yet
  std::string instance{};
  std::string reason{};
  std::int64_t wall_us = 0;
};

struct AutoscaleFigures {
  std::atomic<bool> on{false};
  std::atomic<std::uint64_t> starts{0};         // asked for
  std::atomic<std::uint64_t> failed_starts{0};  // ended, or not healthy, before they were of use
  std::atomic<std::uint64_t> stops{0};          // of those that were idle, or too many
  std::atomic<std::uint64_t> replacements{0};   // of those that failed their checks, or died
  std::atomic<std::uint64_t> kills{0};
  std::atomic<std::uint32_t> desired{0}, running{0}, starting{0}, serving{0};

  void set(std::vector<AutoscaleInstance> instances, bool pressed) {
    const std::lock_guard lock(mutex_);
    instances_.swap(instances);
    pressed_ = pressed;
  }
  void note(AutoscaleEvent event) {
    const std::lock_guard lock(mutex_);
    if (!event.action.empty()) last_ = std::move(event);
  }
  void set_problem(std::string text) {
    const std::lock_guard lock(mutex_);
    problem_ = std::move(text);
  }

  // As a member "autoscale" of the object that `json` is in; null when it is off. `min`, `max`: in force.
  void write(JsonWriter& json, std::int64_t min, std::int64_t max) const;

 private:
  mutable std::mutex mutex_;
  std::vector<AutoscaleInstance> instances_;
  AutoscaleEvent last_;
  std::string problem_;  // why the last start could not even be tried; empty: it could
  bool pressed_ = false;
};

}  // namespace dlb::lb
