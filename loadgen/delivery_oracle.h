// DeliveryOracle: whether every subscriber of the chat got what it had to get (G3). It is told what was sent
// (sent), what the server promised (accepted), what came on each subscriber's stream (received) and, at the
// end, what stands in the feed (feed_row); judge() compares:
//
//   each row that stands in the feed, or was accepted, above a stream's base came on that stream once (else
//   missed, duplicated), above the one before (reordered), with the sender's name and text and the promised
//   sequence and timestamp (altered); nothing came that is in no feed (phantom).
//
// Messages whose post failed are ambiguous: the feed decides whether they are rows. Rows of other people are
// tolerated and must come all the same. Memory: about 130 bytes a message and 70 a row, and the cursor of
// each stream; never a text. Pure: no I/O, no clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "loadgen/hash_places.h"
#include "loadgen/message_id.h"
#include "loadgen/stream_cursor.h"

namespace dlb::loadgen {

// A row as a stream or a feed shows it.
struct ChatRow {
  std::int64_t sequence = 0;
  std::string_view id;
  std::uint64_t content = 0;  // content_hash(); 0: undecryptable
  std::uint64_t stamp = 0;    // hash_bytes() of the timestamp's text
};

// What is wrong with streams, in rows.
struct StreamFaults {
  std::uint64_t missed = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t altered = 0;
  std::uint64_t phantom = 0;

  std::uint64_t sum() const { return missed + duplicated + reordered + altered + phantom; }
  StreamFaults& operator+=(const StreamFaults& other);
};

// What the streams of one group (the subscribers at one url) got.
struct GroupDelivery {
  std::string name;
  std::uint64_t streams = 0;
  std::uint64_t expected = 0;   // rows, summed over the streams
  std::uint64_t delivered = 0;  // of them
  std::uint64_t resets = 0;     // the server told that its history begins anew
  StreamFaults faults;
};

struct Delivery {
  std::vector<GroupDelivery> groups;
  std::uint64_t accepted = 0;         // messages of this run that the server promised
  std::uint64_t rows = 0;             // above the streams' base, of others too
  std::uint64_t foreign_rows = 0;     // of others
  std::uint64_t contradicted = 0;     // promises whose sequence is another row's, or not that of the message
  bool feed_read = false;             // else what was missed by all is known of accepted messages only
  std::vector<std::string> examples;  // `missed ID (sequence 17): subscriber 3 at wss://…`

  std::uint64_t expected() const;
  std::uint64_t delivered() const;
  std::uint64_t resets() const;
  StreamFaults faults() const;
  bool passed() const { return faults().sum() + contradicted + resets() == 0; }
};

class DeliveryOracle {
 public:
  static constexpr std::uint64_t kMaxExamples = 10;  // of each kind

  // The number of the new group, or of the new stream in it, from 0.
  std::size_t add_group(std::string name);
  std::size_t add_stream(std::size_t group, std::int64_t base);

  // A message of this run is about to be sent. Again under the same id: nothing.
  void sent(const MessageId& id, std::uint64_t content, TimePoint intended);
  // The server's promise; `sequence` 0 and `stamp` 0 when its answer didn't tell. Requires sent().
  void accepted(const MessageId& id, std::int64_t sequence, std::uint64_t stamp, TimePoint now);

  struct Receipt {
    bool ours = false;        // the first delivery of a message of this run on this stream
    TimePoint intended{};     // with ours
    TimePoint accepted_at{};  // with ours; {}: not yet
  };
  Receipt received(std::size_t stream, const ChatRow& row);
  // The stream begins anew behind nothing: always a fault.
  void reset(std::size_t stream);

  // A row of a final feed, of any backend's: in ascending order.
  void feed_row(const ChatRow& row);
  void feed_done() { feed_read_ = true; }

  // Deliveries that came before their promise.
  std::uint64_t before_promise() const { return before_promise_; }
  std::int64_t last(std::size_t stream) const { return streams_[stream].cursor.last(); }
  // What each stream must have reached: the highest sequence of a promise or a feed's row.
  std::int64_t horizon() const { return horizon_; }

  // Once, behind everything else.
  Delivery judge();

 private:
  struct Message {
    MessageId id;
    std::uint64_t content = 0;
    std::uint64_t stamp = 0;
    std::int64_t promised = 0;  // sequence of the promise
    std::int64_t seen = 0;      // sequence it was first seen under
    TimePoint intended{};
    TimePoint accepted_at{};
    std::uint32_t before_promise = 0;
    bool accepted = false;
  };
  struct Row {
    std::int64_t sequence = 0;
    std::uint64_t id = 0;  // hash
    std::uint64_t content = 0;
    std::uint64_t stamp = 0;
    std::uint32_t message = HashPlaces::kNone;
    std::uint32_t stream = HashPlaces::kNone;  // that brought it first; kNone: none did
    bool in_feed = false;
  };
  struct Stream {
    std::size_t group = 0;
    std::size_t number = 0;  // in its group
    StreamCursor cursor;
  };
  enum Kind : std::size_t { Missed, Duplicated, Reordered, Altered, Phantom, Contradicted, kKinds };

  std::uint32_t message_place(std::string_view id) const;
  Row& row_at(const ChatRow& row, std::uint32_t message, bool* fresh);
  bool altered(const Row& known, bool fresh, const ChatRow& row, std::uint32_t message) const;
  void note(Kind kind, const std::string& what, std::size_t stream);
  std::string stream_name(std::size_t stream) const;
  std::string row_name(const Row& row) const;
  void judge_stream(std::size_t number, const std::vector<std::uint32_t>& rows);

  std::vector<GroupDelivery> groups_;
  std::vector<Stream> streams_;
  std::vector<Message> messages_;
  std::vector<Row> rows_;
  HashPlaces message_places_;
  HashPlaces row_places_;
  std::uint64_t accepted_ = 0;
  std::uint64_t contradicted_ = 0;
  std::uint64_t before_promise_ = 0;
  std::int64_t lowest_base_ = 0;
  std::int64_t horizon_ = 0;
  std::int64_t feed_last_ = 0;
  bool feed_read_ = false;
  std::vector<std::string> examples_;
  std::array<std::uint64_t, kKinds> shown_{};
};

}  // namespace dlb::loadgen
