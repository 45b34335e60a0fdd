#include "loadgen/feed_splitter.h"

#include <charconv>

namespace dlb::loadgen {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

bool FeedSplitter::fail(std::string_view what) {
  state_ = State::Bad;
  error_ = what;
  return false;
}

bool FeedSplitter::feed(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    switch (state_) {
      case State::Bad:
        return false;
      case State::Key: {
        const char c = bytes[at++];
        if (c == '"') {
          state_ = State::Colon;
        } else if (c == '\\' || key_.size() >= 256) {
          return fail("a member's name is escaped or too long");
        } else {
          key_ += c;
        }
        break;
      }
      case State::InValue:
      case State::InElement:
        if (!scan_value(bytes, at)) break;
        if (!end_value()) return false;
        break;
      default:
        if (is_space(bytes[at])) {
          ++at;
          break;
        }
        if (state_ == State::Value || state_ == State::ElementOrEnd || state_ == State::ElementBegin) {
          const bool messages = state_ == State::Value && key_ == "messages";
          const char c = bytes[at];
          if (state_ == State::ElementOrEnd && c == ']') {
            state_ = State::AfterValue;
            ++at;
          } else if (messages) {
            if (has_messages_ || c != '[') return fail("\"messages\" is no array, or there twice");
            has_messages_ = true;
            state_ = State::ElementOrEnd;
            ++at;
          } else {
            state_ = state_ == State::Value ? State::InValue : State::InElement;
            begin_value();
          }
        } else if (!structural(bytes[at++])) {
          return false;
        }
    }
    if (state_ == State::Bad) return false;
  }
  return state_ != State::Bad;
}

bool FeedSplitter::structural(char c) {
  switch (state_) {
    case State::Start:
      if (c != '{') return fail("the feed is no JSON object");
      state_ = State::KeyOrEnd;
      return true;
    case State::KeyOrEnd:
    case State::KeyBegin:
      if (c == '}' && state_ == State::KeyOrEnd) {
        state_ = State::End;
        return true;
      }
      if (c != '"') return fail("a member's name is missing");
      key_.clear();
      state_ = State::Key;
      return true;
    case State::Colon:
      if (c != ':') return fail("a colon is missing");
      state_ = State::Value;
      return true;
    case State::AfterValue:
      if (c != ',' && c != '}') return fail("neither comma nor brace behind a value");
      state_ = c == ',' ? State::KeyBegin : State::End;
      return true;
    case State::AfterElement:
      if (c != ',' && c != ']') return fail("neither comma nor bracket behind a message");
      state_ = c == ',' ? State::ElementBegin : State::AfterValue;
      return true;
    default:
      return fail("bytes behind the feed's end");
  }
}

void FeedSplitter::begin_value() {
  value_.clear();
  depth_ = 0;
  in_string_ = escaped_ = scalar_ = false;
}

bool FeedSplitter::scan_value(std::string_view bytes, std::size_t& at) {
  const std::size_t from = at;
  bool done = false;
  for (; at < bytes.size() && !done; ++at) {
    const char c = bytes[at];
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
        done = depth_ == 0;
      }
      continue;
    }
    if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (scalar_) {
        done = true;
        break;  // the bracket belongs to what holds the scalar
      }
      done = --depth_ <= 0;
    } else if (depth_ == 0) {
      if (scalar_ && (c == ',' || is_space(c))) {
        done = true;
        break;
      }
      scalar_ = true;
    }
  }
  value_.append(bytes.substr(from, at - from));
  if (value_.size() > kMaxElementBytes) fail("a message or member is too long");
  return done;
}

bool FeedSplitter::end_value() {
  if (state_ == State::Bad) return false;
  if (state_ == State::InElement) {
    state_ = State::AfterElement;
    value_.reserve(value_.size() + kPadding);
    return sink_.on_element(value_) || fail("a message is malformed");
  }
  state_ = State::AfterValue;
  if (key_ != "count") return true;
  const char* end = value_.data() + value_.size();
  const auto parsed = std::from_chars(value_.data(), end, count_);
  if (has_count_ || parsed.ec != std::errc() || parsed.ptr != end)
    return fail("\"count\" is no number, or there twice");
  has_count_ = true;
  return true;
}

bool FeedSplitter::finish() {
  if (state_ == State::Bad) return false;
  if (state_ != State::End) return fail("the feed ends in the middle");
  if (!has_messages_) return fail("the feed has no \"messages\"");
  return true;
}

}  // namespace dlb::loadgen
