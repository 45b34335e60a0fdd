// JSON out, appended to a std::string. The output is valid UTF-8 JSON whatever the input bytes are: invalid
// UTF-8 becomes U+FFFD, a number that isn't finite becomes null. JsonWriter places the commas; nesting
// mistakes are broken invariants of the caller. Plain ASCII runs are copied eight bytes at a time (the feed
// is serialised with this).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dlb {

// Appends `text` as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);
// The same without the quotes.
void append_json_escaped(std::string& out, std::string_view text);
void append_json_integer(std::string& out, std::int64_t value);
void append_json_unsigned(std::string& out, std::uint64_t value);
// `decimals` digits behind the point (0-17), or with -1 the shortest text that reads back equal. Not finite:
// null.
void append_json_double(std::string& out, double value, int decimals = -1);

// Length of the longest prefix of `text` that is valid UTF-8 (no surrogates, no overlong forms, at most
// U+10FFFF).
std::size_t valid_utf8_prefix(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

class JsonWriter {
 public:
  // Appends to `out`, which must outlive the writer. The caller may also append to `out` between two values
  // if it knows what it does.
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  // Inside an object, before its value.
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag);
  JsonWriter& value(double number, int decimals = -1);
  template <std::signed_integral Number>
  JsonWriter& value(Number number) {
    separate();
    append_json_integer(out_, number);
    return *this;
  }
  template <std::unsigned_integral Number>
  requires(!std::same_as<Number, bool>) JsonWriter& value(Number number) {
    separate();
    append_json_unsigned(out_, number);
    return *this;
  }
  JsonWriter& null();
  // A value that is JSON already.
  JsonWriter& raw(std::string_view json);

  template <class Value>
  JsonWriter& field(std::string_view name, const Value& v) {
    return key(name).value(v);
  }
  JsonWriter& field(std::string_view name, double number, int decimals) {
    return key(name).value(number, decimals);
  }

  std::size_t depth() const { return depth_; }  // 0: the document is complete
  std::string& out() { return out_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate() {
    if (need_comma_) out_ += ',';
    need_comma_ = true;
  }

  std::string& out_;
  std::size_t depth_ = 0;
  bool need_comma_ = false;
};

}  // namespace dlb
