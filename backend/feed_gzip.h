// FeedGzip: gzip for bodies that share their parts, each part compressed once. A feed is one gzip member: a
// row of raw deflate blocks, each ending on a byte boundary, so that pieces of different ages can stand one
// behind the other; the checksum of the whole is combined from theirs.
//
//   header │ pieces of part 0 │ pieces of part 1 │ … │ final block, CRC-32, length
//
// A piece covers at most kPieceBytes of a part and may refer back only within its part, so it fits wherever
// that part stands. Parts that grow at their end (the open chunk) get further pieces, many small ones become
// one. What is kept goes with its part: an entry whose owner is gone is swept. Pure: no clock, no loop; the
// caller bounds how much is compressed at a time. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/http_body.h"

struct z_stream_s;

namespace dlb::backend {

// Whether an Accept-Encoding value (RFC 9110 section 12.5.3) takes gzip: by name or by `*`, with a weight
// above 0.
bool accepts_gzip(std::string_view accept_encoding);

class FeedGzip {
 public:
  static constexpr std::size_t kPieceBytes = 64 * 1024;

  // Keeps compressed parts up to `max_bytes`; beyond, they are compressed for each body.
  explicit FeedGzip(std::size_t max_bytes);
  FeedGzip(const FeedGzip&) = delete;
  FeedGzip& operator=(const FeedGzip&) = delete;
  ~FeedGzip();

  // A body on its way to gzip.
  class Job {
   public:
    // `keep`: its parts are whole and will be asked for again; else (a page) they are compressed for this
    // body only, unless they are there already.
    Job(HttpBody plain, bool keep) : plain_(std::move(plain)), keep_(keep) {}

   private:
    friend class FeedGzip;
    HttpBody plain_;
    bool keep_;
    std::size_t part_ = 0;  // of plain_, the next
    std::size_t done_ = 0;  // bytes of it that are compressed
    std::vector<BodyPart> out_;
    std::uint32_t crc_ = 0;
    std::uint64_t size_ = 0;
  };

  // Bytes of the job's body that are not compressed yet.
  std::uint64_t missing(const Job& job) const;
  // Goes on with it for at most `budget` more bytes, one piece at least; true when finish() may be called.
  bool step(Job& job, std::size_t budget);
  HttpBody finish(Job& job);

  std::size_t memory() const { return memory_; }
  std::size_t entries() const { return entries_.size(); }
  std::uint64_t compressed_bytes() const { return compressed_bytes_; }  // of plain text, ever

 private:
  struct Piece {
    std::shared_ptr<const std::string> bytes;
    std::uint32_t crc = 0;
    std::size_t plain = 0;
  };
  // What is kept of one part, by where its bytes begin.
  struct Entry {
    std::weak_ptr<const void> owner;
    std::vector<Piece> pieces;
    std::size_t plain = 0;  // sum of the pieces'
    std::size_t memory = 0;
  };

  Entry* find(const BodyPart& part);
  const Entry* find(const BodyPart& part) const;
  Piece deflate(std::string_view before, std::string_view bytes);
  void keep(const BodyPart& part, const Piece& piece);
  void merge(Entry& entry);
  void sweep();
  static void add(Job& job, const Piece& piece);

  std::size_t max_bytes_;
  std::size_t memory_ = 0;
  std::uint64_t compressed_bytes_ = 0;
  std::map<const char*, Entry> entries_;
  std::string scratch_;
  std::unique_ptr<z_stream_s> stream_;
  bool ready_ = false;  // the stream's memory is taken with the first gzip body
};

}  // namespace dlb::backend
