// Parameters for PostgreSQL in its binary format, scalars and one-dimensional arrays, and results read back
// from it. Binary because it needs no escaping, whatever the bytes, and no hex for bytea. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace dlb::backend {

// Type oids of PostgreSQL's catalogue (pg_type.dat); fixed for ever.
enum class PgType : std::uint32_t {
  Bytea = 17,
  Int8 = 20,
  Int2 = 21,
  Text = 25,
  TextArray = 1009,
  ByteaArray = 1001,
  Int2Array = 1005
};

inline void append_big_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8)
    out += static_cast<char>((value >> shift) & 0xffU);
}

inline std::string pg_int8(std::int64_t value) {
  std::string out;
  append_big_endian(out, static_cast<std::uint64_t>(value), 8);
  return out;
}

// Big-endian two's complement of the value's own width (int2, int4, int8).
inline std::int64_t pg_integer(std::string_view bytes) {
  if (bytes.empty()) return 0;
  std::uint64_t value = (static_cast<unsigned char>(bytes[0]) & 0x80U) != 0 ? ~std::uint64_t{0} : 0;
  for (const char c : bytes) value = (value << 8) | static_cast<unsigned char>(c);
  return static_cast<std::int64_t>(value);
}

// timestamptz is microseconds since 2000-01-01; ours count from 1970. What ISO 8601's four digits can't say
// (infinity, years a foreign row made up) becomes the nearest that they can.
inline std::int64_t pg_timestamp_us(std::string_view bytes) {
  constexpr std::int64_t kEpoch = 946'684'800'000'000;
  constexpr std::int64_t kFirst = -62'135'596'800'000'000;  // 0001-01-01
  constexpr std::int64_t kLast = 253'402'300'799'999'999;   // 9999-12-31
  return std::clamp(pg_integer(bytes), kFirst - kEpoch, kLast - kEpoch) + kEpoch;
}

// array_recv's format: dimensions, has-null, element type, length, lower bound, then each element with its
// length.
class PgArray {
 public:
  PgArray(PgType element, std::size_t count) {
    append_big_endian(bytes_, count == 0 ? 0 : 1, 4);
    append_big_endian(bytes_, 1, 4);  // may have nulls
    append_big_endian(bytes_, static_cast<std::uint32_t>(element), 4);
    if (count == 0) return;
    append_big_endian(bytes_, count, 4);
    append_big_endian(bytes_, 1, 4);
  }
  void add(std::string_view element) {
    append_big_endian(bytes_, element.size(), 4);
    bytes_ += element;
  }
  void add_int2(std::int16_t value) {
    append_big_endian(bytes_, 2, 4);
    append_big_endian(bytes_, static_cast<std::uint16_t>(value), 2);
  }
  void add_null() { append_big_endian(bytes_, 0xffffffffU, 4); }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace dlb::backend
