// Reloader: SIGHUP reads the configuration again (L24). Reading and resolving names happens on a thread of
// its own, since both block; judging and putting in force on the control thread; each worker takes the new
// configuration over between two events (Worker::apply). What is refused leaves everything as it is.
//
//   Idle ──request──▶ Reading ──refused: the error is logged and kept──▶ Idle
//                        │ a request meanwhile: once more after this one
//                        └─in force─▶ Settling ──new backends checked, or monitor-timeout──▶ Idle
//                                        └ a request meanwhile: Reading, from what is in force now
//
// Settling: backends that are no longer configured serve on until those that came with the reload have had
// their first check, so that a list that is exchanged as a whole leaves no gap; then they are gone
// (backend_changes.h). Options that need a restart are put back and told, one line each (option_changes.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/mailbox.h"
#include "common/timer_heap.h"
#include "lb/control.h"
#include "lb/option_changes.h"
#include "lb/reload_figures.h"
#include "lb/shared.h"

namespace dlb::lb {

// Where the options come from; lives as long as the process.
struct OptionSources {
  int argc = 0;
  const char* const* argv = nullptr;
  const char* const* environment = nullptr;
};

// What reading gave. Without `options`: the error.
struct ReadConfiguration {
  std::shared_ptr<Options> options;
  std::shared_ptr<const TlsContext> tls;  // of tls-listen
  std::vector<std::string> warnings;
  std::string error;             // one line, with FILE:LINE:COLUMN where there is one
  bool certificate_bad = false;  // it is the certificate or the key that can't be used
};

// `workers = 0` becomes one per CPU of the quota, at most 64.
void resolve_workers(Options& options);

// Reads and checks everything. Blocks on files and name lookups.
ReadConfiguration read_configuration(const OptionSources& sources);

struct ReloadMail {
  std::shared_ptr<ReadConfiguration> read;  // null: a request
};

// What came of a reload.
struct ReloadOutcome {
  std::string error{};  // empty: the new configuration is in force
  std::uint64_t generation = 0;
  std::vector<std::string> changed{};        // options
  std::vector<std::string> needs_restart{};  // options that stay as they were
  std::size_t backends_added = 0;
  std::size_t backends_leaving = 0;
};

// Who waits for what comes of a reload. Called on the control thread; each beginning is followed by one end.
class ReloadWatcher {
 public:
  virtual void on_reload_begins() = 0;  // files are read from now on
  virtual void on_reload_ends(const ReloadOutcome& outcome) = 0;

 protected:
  ~ReloadWatcher() = default;
};

class Reloader final : public MailboxHandler<ReloadMail>, public HeapTimerHandler {
 public:
  // Made before control.start(), destroyed after control.stop(). Everything must outlive it.
  Reloader(const OptionSources& sources, Control& control, Shared& shared, ReloadFigures& figures);
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;
  ~Reloader();

  // Before control.start(). Must outlive the reloads.
  void set_watcher(ReloadWatcher& watcher) { watcher_ = &watcher; }
  // Any thread.
  void request();

  // The instances of [autoscale], which stand behind the file's backends in every configuration
  // (autoscale.h). adopt_instances(): those that the first configuration has; before control.start().
  // set_instances(), on the control thread: from now on these. One that is left out is gone at once, one that
  // is new is as a server that nothing is known of.
  void adopt_instances(std::vector<BackendOption> instances) { instances_ = std::move(instances); }
  void set_instances(std::vector<BackendOption> instances);
  // The serial that every worker's configuration has reached.
  std::uint64_t seen_by_all() const;

  void on_mail(ReloadMail mail) override;
  void on_heap_timer(HeapTimer& timer) override;

 private:
  static constexpr Duration kPoll = std::chrono::milliseconds(10);

  struct Reading;  // what the reading thread shares with this object

  void begin_reading();
  void refuse(const ReadConfiguration& read);
  void take(ReadConfiguration& read);
  void publish(Configuration next);
  void tell_workers();
  void settle();
  bool checked() const;
  bool taken_over() const;
  void tell(const OptionChanges& changes, std::size_t added, std::size_t leaving) const;
  void end(const ReloadOutcome& outcome) const;

  const OptionSources sources_;
  Control& control_;
  Shared& shared_;
  ReloadFigures& figures_;
  ReloadWatcher* watcher_ = nullptr;
  Mailbox<ReloadMail> mail_;
  HeapTimer timer_;  // while settling, and until every worker has the configuration in force
  std::shared_ptr<Reading> reading_;
  std::thread thread_;
  std::atomic<bool> requested_{false};  // a request is in the mailbox
  bool again_ = false;                  // one came while the file was being read
  bool mail_lost_ = false;              // a worker's mailbox was full
  bool settling_ = false;
  std::vector<std::uint32_t> leaving_;
  std::vector<BackendOption> instances_;
  TimePoint settled_by_{};
  TimePoint began_{};
};

}  // namespace dlb::lb
