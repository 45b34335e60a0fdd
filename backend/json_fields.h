// JsonFields: reads one JSON object strictly, to the last byte, and takes the fields that the caller knows.
// All else is walked, so that what is acted on was well-formed everywhere: UTF-8, escapes, paired surrogates,
// numbers, nesting up to kMaxJsonDepth, nothing behind the object. One thread; scratch memory that is used
// again for each text. Knows no messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dlb::backend {

inline constexpr int kMaxJsonDepth = 64;  // objects and arrays within each other, the outermost counted

struct JsonField {
  enum class Kind : std::uint8_t {
    Absent,
    Null,
    Text,
    Integer,  // written without fraction or exponent, and within 64 bits
    Other,
  };
  Kind kind = Kind::Absent;
  std::string text;
  std::int64_t integer = 0;
};

class JsonFields {
 public:
  JsonFields();
  JsonFields(const JsonFields&) = delete;
  JsonFields& operator=(const JsonFields&) = delete;
  ~JsonFields();

  // Fills `fields`, which stand for `names` place by place and must be fresh. Null, or what is wrong with the
  // text ("is not valid JSON"). A name that stands in the object twice is told by `repeated`.
  const char* read(std::string_view json, std::span<const std::string_view> names,
                   std::span<JsonField> fields, std::optional<std::size_t>& repeated);

 private:
  struct Parser;  // simdjson's, and its padded copy of the text
  std::unique_ptr<Parser> parser_;
};

}  // namespace dlb::backend
