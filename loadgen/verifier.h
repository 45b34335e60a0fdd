// Verifier: after a run, reads feeds over HTTP and has them checked against the ledger (feed_checker.h), and
// those of several backends against each other. Drives the loop itself, since nothing else runs then. A feed
// that can't be had (a backend that is just coming back) is asked for again a few times.
#pragma once

#include <string>
#include <vector>

#include "common/event_loop.h"
#include "common/tls_context.h"
#include "loadgen/feed_checker.h"
#include "loadgen/ledger.h"
#include "loadgen/target.h"

namespace dlb::loadgen {

struct CheckedFeed {
  std::string url;
  bool fetched = false;
  std::string error;     // why it could not be fetched
  bool endless = false;  // its time was over before its end
  std::string sha256;    // of the body, hex
  FeedSummary summary;

  bool passed() const { return fetched && !summary.faults.any(); }
};

struct Verification {
  std::uint64_t accepted = 0;         // messages that must be there
  std::uint64_t ambiguous = 0;        // messages that failed after they may have been sent
  CheckedFeed feed;                   // through the loaded URL
  std::vector<CheckedFeed> backends;  // of -verify-urls
  bool backends_equal = true;         // their bodies
  bool interrupted = false;

  bool passed() const;
};

struct VerifyTimes {
  Duration idle;  // without a byte
  Duration feed;  // for one feed with all attempts; 0: no bound
};

class Verifier {
 public:
  // `stop` is looked at between turns: true ends the verification as interrupted.
  // `tls`: for https targets; may be null without; borrowed. `rows`, if not null, gets the rows of each feed
  // that is read.
  Verifier(EventLoop& loop, Ledger& ledger, VerifyTimes times, const bool& stop,
           const TlsContext* tls = nullptr, FeedRowUser* rows = nullptr)
      : loop_(loop), ledger_(ledger), times_(times), stop_(stop), tls_(tls), rows_(rows) {}

  Verification run(const Target& target, const std::vector<Target>& backends);

 private:
  CheckedFeed check(const Target& target);
  void wait(Duration time);

  EventLoop& loop_;
  Ledger& ledger_;
  VerifyTimes times_;
  const bool& stop_;
  const TlsContext* tls_;
  FeedRowUser* rows_;
};

}  // namespace dlb::loadgen
