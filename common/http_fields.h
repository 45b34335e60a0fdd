// The field lines of a head, and what they say about framing and the connection: one pass for requests and
// responses. Internal to http_parser.cc; pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/http_message.h"
#include "common/http_scan.h"

namespace dlb::http {

// Why a head is refused; `status` 0 means it is not.
struct Fault {
  int status = 0;
  std::string_view reason{};
  explicit operator bool() const { return status != 0; }
};

// Facts gathered while a head is read, for its framing and for the comparison with llhttp.
struct HeadFacts {
  std::uint8_t minor_version = 1;  // as written: 2 and more are treated as 1
  int llhttp_method = 0;
  std::uint32_t hosts = 0;
  std::uint32_t content_lengths = 0;
  std::uint32_t transfer_encodings = 0;
  std::uint32_t connections = 0;  // those that read_connection() must look at
  bool connection_close = false;  // the plain cases, seen at once
  bool connection_keep_alive = false;
  std::uint32_t expects = 0;
  bool has_upgrade = false;
  std::uint64_t content_length = 0;
  std::string_view host{};
};

// What the Connection fields ask for.
struct ConnectionOptions {
  bool close = false;
  bool keep_alive = false;
  bool upgrade = false;
};

// How the Transfer-Encoding fields end.
enum class TransferCoding : std::uint8_t { Chunked, Identity, Unknown, Malformed };

// Reads the field lines: lines 1 and up of `lines`, which are sound (scan_head()). `bytes` is what the
// offsets count in.
Fault read_fields(std::string_view bytes, const LineEnds& lines, HeaderFields& fields, HeadFacts& facts);

// Reads the Connection fields and marks as hop_by_hop what they name, protected fields excepted.
Fault read_connection(HeaderFields& fields, ConnectionOptions& options);

TransferCoding read_transfer_encoding(const HeaderFields& fields);

}  // namespace dlb::http
