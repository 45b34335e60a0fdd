// Who writes next to the embedded database: turns among processes, and that writers of one file don't starve
// one another. The workers here are threads, which meet at SQLite's lock just as processes do.
#include "backend/writer_turns.h"

#include <memory>
#include <string>
#include <vector>

#include "backend/key_ring.h"
#include "backend/sqlite_worker.h"
#include "common/clock.h"
#include "common/event_loop.h"
#include "test/support/catch.h"
#include "test/support/temp_dir.h"

namespace dlb::backend::test {
namespace {

using std::chrono::milliseconds;

// Workers that each always have something to write, and who has committed in what order.
class Writers final : MailboxHandler<std::unique_ptr<SqliteResult>> {
 public:
  Writers(const std::string& folder, std::size_t count) : results_(loop_, *this, 64) {
    for (std::size_t i = 0; i < count; ++i) {
      // One after the other: opening is not what is tested here.
      workers_.push_back(std::make_unique<SqliteWorker>(folder, std::chrono::seconds(5), results_));
      workers_.back()->post({.kind = SqliteJob::Kind::Open, .id = i});
      while (opened_ <= i) loop_.run_once(milliseconds(5));
    }
  }

  // `backlog` jobs of `rows` rows are always waiting at each worker, until `commits` are done.
  void run(std::size_t commits, std::size_t backlog, std::size_t rows) {
    commits_ = commits;
    rows_ = rows;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      for (std::size_t j = 0; j < backlog; ++j) post(i);
    }
    while (order_.size() < commits) loop_.run_once(milliseconds(5));
  }

  const std::vector<std::size_t>& order() const { return order_; }
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  void post(std::size_t worker) {
    SqliteJob job{.kind = SqliteJob::Kind::Write, .id = worker};
    for (std::size_t i = 0; i < rows_; ++i) {
      auto& row = written_.emplace_back(std::make_unique<PendingWrite>());
      row->message = {"id-" + std::to_string(written_.size()), "writer", "", MessageSource::Http, ""};
      row->sealed.emplace();
      row->sealed->ciphertext.assign(200, 'x');
      job.rows.push_back(row.get());
    }
    workers_[worker]->post(std::move(job));
  }

  void on_mail(std::unique_ptr<SqliteResult> result) override {
    if (result->kind == SqliteJob::Kind::Open) {
      if (!result->ok) failures_.push_back(result->detail);
      ++opened_;
      return;
    }
    if (!result->ok) failures_.push_back(result->detail);
    order_.push_back(result->id);
    if (order_.size() < commits_) post(result->id);
  }

  EventLoop loop_;
  Mailbox<std::unique_ptr<SqliteResult>> results_;
  std::vector<std::unique_ptr<PendingWrite>> written_;
  std::vector<std::size_t> order_;
  std::vector<std::string> failures_;
  std::size_t opened_ = 0;
  std::size_t commits_ = 0;
  std::size_t rows_ = 0;
  std::vector<std::unique_ptr<SqliteWorker>> workers_;  // last: joined before the rows die
};

// The most commits of others that one had to see before its own next one.
std::size_t longest_wait(const std::vector<std::size_t>& order, std::size_t writers) {
  std::size_t longest = 0;
  for (std::size_t writer = 0; writer < writers; ++writer) {
    std::size_t waited = 0;
    for (const std::size_t one : order) {
      waited = one == writer ? 0 : waited + 1;
      longest = std::max(longest, waited);
    }
  }
  return longest;
}

}  // namespace

TEST_CASE("writers of one SQLite file take turns", "[store][sqlite]") {
  ::dlb::test::TempDir folder;
  Writers writers(folder.path() + "/data", 3);
  writers.run(240, 3, 100);
  CHECK(writers.failures() == std::vector<std::string>{});
  // Two, when each goes once a round; some more when the machine leaves one aside for a while. Without turns
  // 30 to 100.
  CHECK(longest_wait(writers.order(), 3) <= 25);
}

TEST_CASE("turns go by who has waited for longest, and pass over the silent", "[sqlite]") {
  ::dlb::test::TempDir folder;
  const std::string path = folder.path() + "/turns";
  const TimePoint t = monotonic_now();
  WriterTurns a, b, c;
  REQUIRE(a.open(path));
  REQUIRE(b.open(path));
  REQUIRE(c.open(path));

  a.ask(t);
  CHECK(a.mine(t));
  b.ask(t + milliseconds(1));
  c.ask(t + milliseconds(2));
  CHECK_FALSE(b.mine(t + milliseconds(3)));
  CHECK_FALSE(c.mine(t + milliseconds(3)));
  a.leave();
  CHECK(b.mine(t + milliseconds(4)));
  CHECK_FALSE(c.mine(t + milliseconds(4)));
  // Who comes again stands at the end.
  a.ask(t + milliseconds(5));
  b.leave();
  CHECK_FALSE(a.mine(t + milliseconds(6)));
  CHECK(c.mine(t + milliseconds(6)));

  SECTION("one that says nothing any more holds up nobody") {
    const TimePoint later = t + milliseconds(6) + WriterTurns::kSilence * 2;
    CHECK(a.mine(later));
    // When it comes back it is first again.
    CHECK(c.mine(later));
    CHECK_FALSE(a.mine(later));
  }
  SECTION("the place of a dead one is taken by another") {
    const TimePoint later = t + milliseconds(6) + WriterTurns::kSilence * 2;
    b.ask(later);
    CHECK(b.mine(later));
    CHECK_FALSE([&] {
      WriterTurns d;
      d.open(path);
      d.ask(later + milliseconds(1));
      return d.mine(later + milliseconds(1));
    }());
    CHECK(b.mine(later + milliseconds(2)));
  }
  SECTION("without a page every turn is at once") {
    WriterTurns none;
    CHECK_FALSE(none.open(folder.path() + "/no-such-folder/turns"));
    none.ask(t);
    CHECK(none.mine(t));
    none.leave();
  }
}

}  // namespace dlb::backend::test
