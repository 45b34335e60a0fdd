// ChunkDecoder: strict decoder of the chunked transfer coding (RFC 9112 section 7.1), pure and incremental, with a
// state of a few bytes. Rejects what request smuggling lives on: bare LF or CR, signs, white space before the size,
// sizes over 2^62, chunk extensions and trailers beyond their bounds, forbidden trailer fields' syntax errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dlb {

class ChunkDecoder {
 public:
  static constexpr std::size_t kMaxExtensionBytes = 1024;  // in one chunk line
  static constexpr std::size_t kMaxTrailerBytes = 8 * 1024;

  enum class Status : std::uint8_t {
    NeedMore,  // everything was consumed, the body goes on
    Data,      // `data` is body; call again with what is left behind `consumed`
    Trailer,   // `data` is one whole trailer line without CRLF, a view into the input (see below)
    End,       // the final CRLF was consumed; what is left belongs to the next message
    Bad,       // malformed: `reason` says what; close the connection
  };

  struct Step {
    Status status = Status::NeedMore;
    std::size_t consumed = 0;   // bytes of the input that are done with
    std::string_view data{};
    std::string_view reason{};
  };

  // Looks at `input` once. A trailer line that is cut by the end of the input is not consumed: NeedMore with
  // consumed < input.size(); present those bytes again together with the following ones.
  Step next(std::string_view input);

  bool done() const { return state_ == State::End; }
  void reset() { *this = ChunkDecoder(); }
  // Bytes still to come of the chunk that is being read; 0 between chunks.
  std::uint64_t chunk_remaining() const { return remaining_; }

 private:
  enum class State : std::uint8_t {
    Size,       // hex digits of a chunk line
    Extension,  // behind `;` up to CR
    SizeLf,     // the LF of a chunk line
    Data,       // inside chunk data
    DataCr,     // CR behind chunk data
    DataLf,     // its LF
    Trailer,    // at the start of a trailer line or of the final CRLF
    End,
    Bad,
  };

  std::uint64_t remaining_ = 0;
  std::uint32_t line_bytes_ = 0;     // extension bytes of this chunk line
  std::uint32_t trailer_bytes_ = 0;  // all trailer bytes so far
  std::uint8_t digits_ = 0;
  State state_ = State::Size;
};

// `1a2b\r\n` of a chunk of `size` bytes into `out` (18 bytes are enough); returns the length.
std::size_t write_chunk_line(char* out, std::uint64_t size);

}  // namespace dlb
