// FeedChecker: compares one feed with the ledger (G3). Every accepted message is there once with its client
// name and text; ambiguous ones at most once; ids are unique, sequences strictly increasing, "count" is the
// number of rows. Rows that this run never sent are tolerated and counted. Fed in pieces of any size; memory
// is that of one row, the ledger, and 16 bytes for each foreign row. Pure: no I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/delivery_oracle.h"
#include "loadgen/feed_splitter.h"
#include "loadgen/ledger.h"

namespace dlb::loadgen {

// What is wrong with a feed: numbers of rows or messages, and the first few ids of each kind.
struct FeedFaults {
  std::uint64_t lost = 0;          // accepted, not there
  std::uint64_t duplicated = 0;    // rows whose id was there before
  std::uint64_t altered = 0;       // our id with another client name or text, or undecryptable, or with
                                   // another sequence or timestamp than an answer promised
  std::uint64_t out_of_order = 0;  // rows whose sequence isn't above the one before
  bool wrong_count = false;
  std::string malformed;  // not empty: the feed isn't what spec B3 says, and how
  std::vector<std::string> examples;

  bool any() const {
    return lost + duplicated + altered + out_of_order > 0 || wrong_count || !malformed.empty();
  }
};

struct FeedSummary {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;
  std::uint64_t found = 0;  // accepted messages that are there
  std::uint64_t ambiguous_found = 0;
  std::uint64_t foreign = 0;       // rows that this run never sent
  bool foreign_unchecked = false;  // more than kMaxForeign: not all were checked for double ids
  std::int64_t last_sequence = 0;
  FeedFaults faults;
};

// Who wants to see each row that is whole.
class FeedRowUser {
 public:
  virtual void on_feed_row(const ChatRow& row) = 0;

 protected:
  ~FeedRowUser() = default;
};

class FeedChecker final : public FeedSink {
 public:
  static constexpr std::size_t kMaxForeign = 16'000'000;
  static constexpr std::size_t kMaxExamples = 10;  // of each kind

  // Borrows the ledger and uses its `seen` marks: one checker at a time.
  explicit FeedChecker(Ledger& ledger, FeedRowUser* rows = nullptr);
  FeedChecker(const FeedChecker&) = delete;
  FeedChecker& operator=(const FeedChecker&) = delete;
  ~FeedChecker();

  // The body in pieces; after false the rest is of no use.
  bool feed(std::string_view bytes);
  // The body is whole: looks for lost messages and gives the result. Once.
  FeedSummary finish();

  bool on_element(std::string_view json) override;

 private:
  struct Parser;
  struct ForeignIds;

  void check_row(const ChatRow& row, bool readable);
  void example(std::string_view kind, std::string_view id, std::uint64_t count);

  Ledger& ledger_;
  FeedRowUser* rows_;
  FeedSplitter splitter_;
  std::unique_ptr<Parser> parser_;
  std::unique_ptr<ForeignIds> foreign_;
  FeedSummary summary_;
};

}  // namespace dlb::loadgen
