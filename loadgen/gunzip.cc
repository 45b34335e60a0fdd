#include "loadgen/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>

namespace dlb::loadgen {

std::optional<std::string> gunzip(std::string_view compressed, std::size_t most) {
  constexpr int kGzipWindow = 15 + 16;
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) return std::nullopt;
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));  // zlib does not write there
  stream.avail_in = static_cast<uInt>(std::min<std::size_t>(compressed.size(), UINT32_MAX));
  std::string out;
  std::array<char, 16 * 1024> piece;
  int rc = Z_OK;
  while (out.size() <= most) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    rc = inflate(&stream, Z_NO_FLUSH);
    out.append(piece.data(), piece.size() - stream.avail_out);
    if (rc == Z_STREAM_END && stream.avail_in > 0) rc = inflateReset(&stream);  // the next member
    if (rc != Z_OK || (stream.avail_in == 0 && stream.avail_out > 0)) break;
  }
  inflateEnd(&stream);
  if (rc != Z_STREAM_END || out.size() > most) return std::nullopt;
  return out;
}

}  // namespace dlb::loadgen
