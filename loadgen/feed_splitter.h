// FeedSplitter: cuts a feed `{"messages":[…],"count":N}` that arrives in pieces into its elements, so that a
// feed of any size is checked in the memory of one element. Members may stand in any order, others are
// skipped. It is strict about the structure around the elements and leaves their insides to the sink's JSON
// parser. Pure.
//
//   Start ─{─▶ KeyOrEnd ─"─▶ Key ─"─▶ Colon ─:─▶ Value ─▶ AfterValue ─,─▶ KeyBegin … ─}─▶ End
//                                                  │ of "messages"
//                                                  └─[─▶ ElementOrEnd ⇄ Element ⇄ AfterElement ─]─▶
//                                                  AfterValue
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dlb::loadgen {

class FeedSink {
 public:
  // One element of "messages". At least kPadding readable bytes stand behind it. False stops with an error.
  virtual bool on_element(std::string_view json) = 0;

 protected:
  ~FeedSink() = default;
};

class FeedSplitter {
 public:
  static constexpr std::size_t kMaxElementBytes = 1024 * 1024;
  static constexpr std::size_t kPadding = 64;

  explicit FeedSplitter(FeedSink& sink) : sink_(sink) {}

  // False once the feed has proved malformed: error() says how.
  bool feed(std::string_view bytes);
  // The feed has ended: false when it was cut.
  bool finish();

  std::string_view error() const { return error_; }
  bool has_count() const { return has_count_; }
  std::uint64_t count() const { return count_; }  // the "count" member

 private:
  enum class State : std::uint8_t {
    Start,
    KeyOrEnd,  // behind {
    KeyBegin,  // behind a comma
    Key,       // inside a member's name
    Colon,
    Value,    // at a value's first character
    InValue,  // inside a value of no interest, or of "count"
    AfterValue,
    ElementOrEnd,  // behind [
    ElementBegin,  // behind a comma
    InElement,
    AfterElement,
    End,
    Bad,
  };

  bool fail(std::string_view what);
  bool structural(char c);
  void begin_value();
  // Moves over a value's characters; true when it is complete. Collects them in value_.
  bool scan_value(std::string_view bytes, std::size_t& at);
  bool end_value();

  FeedSink& sink_;
  State state_ = State::Start;
  std::string key_;
  std::string value_;
  std::string_view error_{};
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool scalar_ = false;
  bool has_messages_ = false;
  bool has_count_ = false;
  std::uint64_t count_ = 0;
};

}  // namespace dlb::loadgen
