// Predecessor: the balancer whose place this process took in an upgrade (lb/upgrade.h), as long as it drains.
// The two have a socket pair: by its first byte the old one hears that this one accepts, by lines behind it
// what an operator sets, since for a while requests go to the backends from both. Made by main(); what it
// holds never changes, so any thread may use it.
#pragma once

#include <string_view>
#include <utility>

#include "common/fd.h"

namespace dlb::lb {

class Predecessor {
 public:
  explicit Predecessor(Fd socket = {}) : socket_(std::move(socket)) {}  // without: this was no upgrade

  bool was_there() const { return static_cast<bool>(socket_); }
  // It has not ended yet.
  bool alive() const;
  void tell_ready() const { send("1"); }
  // A line of handover.h, with a newline; lost when nobody is there.
  void tell(std::string_view line) const { send(line); }

 private:
  void send(std::string_view text) const;

  const Fd socket_;
};

}  // namespace dlb::lb
