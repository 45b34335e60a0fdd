// AdminClient: asks a balancer's admin listener, one request a connection, for `lb ctl`. Blocking, one
// thread; all of a request has one deadline. An answer is bounded (kMaxAnswerBytes).
#pragma once

#include <string>
#include <string_view>

#include "common/address.h"
#include "common/clock.h"
#include "common/result.h"

namespace dlb::lb {

struct AdminAnswer {
  int status = 0;
  std::string body;
};

class AdminClient {
 public:
  static constexpr std::size_t kMaxAnswerBytes = 64U << 20;

  // `token`: empty when none is to be sent. `host`: for the Host field.
  AdminClient(Address address, std::string host, std::string token)
      : address_(address), host_(std::move(host)), token_(std::move(token)) {}

  // The error: nobody is there, it took too long, or what came is no answer of HTTP.
  Result<AdminAnswer> ask(std::string_view method, std::string_view target, Duration timeout) const;

 private:
  const Address address_;
  const std::string host_;
  const std::string token_;
};

}  // namespace dlb::lb
