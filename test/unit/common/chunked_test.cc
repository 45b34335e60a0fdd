// ChunkDecoder: what it refuses, and that no way of cutting the input changes what comes out.
#include "common/chunked.h"

#include <string>
#include <vector>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

using Status = ChunkDecoder::Status;

struct Decoded {
  Status end = Status::NeedMore;
  std::string body;
  std::string trailers;
  std::size_t consumed = 0;
  bool operator==(const Decoded&) const = default;
};

// Feeds `bytes` in pieces that end at `cuts`, as a caller does: unconsumed bytes are presented again.
Decoded decode(const std::string& bytes, const std::vector<std::size_t>& cuts) {
  ChunkDecoder decoder;
  Decoded out;
  for (const std::size_t cut : cuts) {
    const std::string input =
        bytes.substr(out.consumed, cut - out.consumed);  // exact size, for the sanitizers
    std::string_view rest = input;
    while (true) {
      const ChunkDecoder::Step step = decoder.next(rest);
      if (step.consumed > rest.size()) FAIL("consumed more than there is");
      rest.remove_prefix(step.consumed);
      out.consumed += step.consumed;
      if (step.status == Status::Data) {
        if (step.data.empty()) FAIL("empty data");
        out.body += step.data;
      } else if (step.status == Status::Trailer) {
        out.trailers += std::string(step.data) + "|";
      } else {
        out.end = step.status;
        break;
      }
    }
    if (out.end == Status::Bad || out.end == Status::End) break;
  }
  if (out.end == Status::Bad) out.consumed = 0;  // where it stops is of no matter
  return out;
}

Decoded decode_whole(const std::string& bytes) { return decode(bytes, {bytes.size()}); }

Decoded decode_byte_by_byte(const std::string& bytes) {
  std::vector<std::size_t> cuts;
  for (std::size_t i = 1; i <= bytes.size(); ++i) cuts.push_back(i);
  return decode(bytes, cuts);
}

const std::vector<std::string> kSamples = {
    "5\r\nhello\r\n0\r\n\r\nrest",
    "5\r\nhello\r\n6;a=b\r\n world\r\n000\r\nX-T: 1\r\nY: \r\n\r\n",
    "a;\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
    "0\r\n\r\n",
    "1\r\nx\r\n0\r\nbad trailer\r\n\r\n",
    "1\r\nx\r\n0\r\n folded\r\n\r\n",
    "3\r\nabcd\r\n0\r\n\r\n",
    "3\nabc\r\n0\r\n\r\n",
    "3\r\nabc\n0\r\n\r\n",
    "3\rabc\r\n0\r\n\r\n",
    "0\r\n\n",
    "0\r\nA: b\n\r\n",
    "0\r\nA: b\rc\r\n\r\n",
};

TEST_CASE("a chunked body comes out whole, with its trailers", "[chunked]") {
  const Decoded d = decode_whole(kSamples[1]);
  CHECK(d.end == Status::End);
  CHECK(d.body == "hello world");
  CHECK(d.trailers == "X-T: 1|Y: |");
  CHECK(d.consumed == kSamples[1].size());
  CHECK(decode_whole(kSamples[0]).consumed == kSamples[0].size() - 4);
}

TEST_CASE("malformed chunks are refused", "[chunked]") {
  for (const char* text : {"\r\n",
                           "g\r\n",
                           " 5\r\nhello\r\n",
                           "5 \r\nhello\r\n",
                           "5\t;a\r\nhello\r\n",
                           "+5\r\nhello\r\n",
                           "-1\r\n",
                           "0x5\r\nhello\r\n",
                           ";a\r\n",
                           "5\nhello\r\n",
                           "5\rhello\r\n",
                           "5\r\nhello\n",
                           "5\r\nhello0\r\n",
                           "5\r\nhello\r\r\n",
                           "5;a\nhello",
                           "5;a\x01\r\n",
                           "5;\x7f\r\n",
                           "00000000000000005\r\n",
                           "4000000000000001\r\n",
                           "7fffffffffffffff\r\n",
                           "ffffffffffffffff\r\n",
                           "10000000000000000\r\n",
                           "fffffffffffffffff\r\n",
                           "0\r\n\n",
                           "0\r\n\rx",
                           "0\r\nA b: c\r\n",
                           "0\r\n: c\r\n",
                           "0\r\nA\r\n",
                           "0\r\nA : b\r\n",
                           "0\r\n A: b\r\n",
                           "0\r\nA: \x01\r\n",
                           "0\r\nA: b\n",
                           "0\r\nA: b\rc"}) {
    INFO(text);
    CHECK(decode_whole(text).end == Status::Bad);
    CHECK(decode_byte_by_byte(text).end == Status::Bad);
  }
  CHECK(decode_whole(std::string("5;a\0b\r\nhello", 12)).end == Status::Bad);
}

TEST_CASE("sizes up to 2^62 are counted", "[chunked]") {
  ChunkDecoder decoder;
  CHECK(decoder.next("4000000000000000\r\n").status == Status::NeedMore);
  CHECK(decoder.chunk_remaining() == std::uint64_t{1} << 62);
  CHECK(decoder.next("abc").data == "abc");
  CHECK(decoder.chunk_remaining() == (std::uint64_t{1} << 62) - 3);
  CHECK(decode_whole("0000000000000005\r\nhello\r\n0\r\n\r\n").body == "hello");
}

TEST_CASE("extensions and trailers are bounded exactly", "[chunked]") {
  const auto extension = [](std::size_t bytes) {
    return decode_whole("1;" + std::string(bytes, 'x') + "\r\na\r\n0\r\n\r\n").end;
  };
  CHECK(extension(ChunkDecoder::kMaxExtensionBytes) == Status::End);
  CHECK(extension(ChunkDecoder::kMaxExtensionBytes + 1) == Status::Bad);
  // All trailer lines count together, with their CRLFs.
  const auto trailers = [](std::size_t bytes) {
    const std::string first = "A: " + std::string(1000, 'b') + "\r\n";
    const std::string input =
        "0\r\n" + first + "C: " + std::string(bytes - first.size() - 5, 'd') + "\r\n\r\n";
    const Decoded whole = decode_whole(input);
    CHECK(decode_byte_by_byte(input) == whole);
    return whole.end;
  };
  CHECK(trailers(ChunkDecoder::kMaxTrailerBytes - 1) == Status::End);
  CHECK(trailers(ChunkDecoder::kMaxTrailerBytes) == Status::End);
  CHECK(trailers(ChunkDecoder::kMaxTrailerBytes + 1) == Status::Bad);
  std::string endless = "0\r\n";
  for (int i = 0; i < 2000; ++i) endless += "A: b\r\n";
  CHECK(decode_whole(endless).end == Status::Bad);
  CHECK(decode_whole("0\r\n" + std::string(9000, 'a')).end == Status::Bad);  // no line end needed
}

TEST_CASE("no way of cutting a chunked body changes what comes out", "[chunked]") {
  for (const std::string& sample : kSamples) {
    INFO(sample);
    const Decoded whole = decode_whole(sample);
    CHECK(decode_byte_by_byte(sample) == whole);
    for (std::size_t a = 1; a < sample.size(); ++a) {
      for (std::size_t b = a; b < sample.size(); ++b) {
        if (decode(sample, {a, b, sample.size()}) != whole) FAIL("cut at " << a << " and " << b);
      }
    }
  }
}

TEST_CASE("mutated chunked bodies never crash, and cutting them changes nothing", "[chunked]") {
  Rng rng(7);
  static constexpr std::string_view kBytes = "\r\n\t ;:0019afAFgx+-\x7f";
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = kSamples[rng.below(kSamples.size())];
    for (std::uint64_t edits = 1 + rng.below(3); edits > 0 && !bytes.empty(); --edits) {
      const std::size_t at = rng.below(bytes.size());
      if (rng.below(2) == 0) {
        bytes[at] = kBytes[rng.below(kBytes.size())];
      } else {
        bytes.erase(at, 1);
      }
    }
    if (bytes.empty()) continue;
    const Decoded whole = decode_whole(bytes);
    if (decode_byte_by_byte(bytes) != whole) FAIL(bytes);
  }
}

TEST_CASE("after the end and after an error nothing more is decoded", "[chunked]") {
  ChunkDecoder decoder;
  CHECK(decoder.next("0\r\n\r\n5\r\n").consumed == 5);
  CHECK(decoder.done());
  CHECK(decoder.next("5\r\nhello").status == Status::End);
  CHECK(decoder.next("5\r\nhello").consumed == 0);
  decoder.reset();
  CHECK(decoder.next("x").status == Status::Bad);
  CHECK(decoder.next("5\r\n").status == Status::Bad);
  decoder.reset();
  CHECK(decoder.next("1\r\na").data == "a");
}

TEST_CASE("chunk lines are written in the shortest hex", "[chunked]") {
  const auto line = [](std::uint64_t size) {
    char out[18];
    return std::string(out, write_chunk_line(out, size));
  };
  CHECK(line(0) == "0\r\n");
  CHECK(line(0x1a2b) == "1a2b\r\n");
  CHECK(line(15) == "f\r\n");
  CHECK(line(16) == "10\r\n");
  CHECK(line(UINT64_MAX) == "ffffffffffffffff\r\n");
}

}  // namespace
}  // namespace dlb
