// Result<T>: a value or an Error, for everything off the hot path (the hot path uses IoResult in
// io_result.h). The member names are those of std::expected, which g++ 12 lacks. Nothing here throws; reading
// the value of a failed result is a broken invariant and aborts.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "common/check.h"

namespace dlb {

// What went wrong, as one sentence for people (`connect 10.0.0.2:9000: ECONNREFUSED (Connection refused)`),
// with the errno when there is one (0 otherwise).
struct Error {
  std::string text;
  int code = 0;
};

// Builds "<what>: ENAME (message)" from a copied errno. Reads no global state.
Error errno_error(std::string_view what, int err);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() {
    DLB_CHECK(has_value());
    return std::get<0>(state_);
  }
  const T& value() const {
    DLB_CHECK(has_value());
    return std::get<0>(state_);
  }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const {
    DLB_CHECK(!has_value());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit by design

  bool has_value() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const {
    DLB_CHECK(!ok_);
    return error_;
  }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace dlb
