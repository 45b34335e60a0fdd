// The frame of the checks; those by HTTP are in verify_http.cc, those of the chat in verify_chat.cc.
#include "loadgen/verify_checks.h"

#include <sys/random.h>

#include <csignal>

#include "common/check.h"
#include "loadgen/chat_users.h"

namespace dlb::loadgen {
namespace {

std::uint64_t random_half() {
  std::uint64_t half = 0;
  DLB_CHECK(::getrandom(&half, sizeof half, 0) == sizeof half);
  return half;
}

}  // namespace

VerifyChecks::VerifyChecks(const VerifyOptions& options, const VerifyTargets& targets)
    : options_(options),
      targets_(targets),
      signals_(loop_, {SIGINT, SIGTERM, SIGHUP}, *this),
      timers_(loop_),
      half_(random_half()),
      prefix_(id_text(0).substr(0, 18)),
      name_(targets.key == nullptr ? std::string() : chat_user_prefix("verify", *targets.key)) {
  report_.url = targets.target.url;
}

std::string VerifyChecks::id_text(int number) const {
  std::string text(kMessageIdChars, ' ');
  write_message_id(id(number), text.data());
  return text;
}

void VerifyChecks::row(std::string_view name, std::string_view hint, Check check, bool possible) {
  CheckRow row{name, CheckOutcome::Skip, {}, "not possible without what failed above", hint};
  if (stop_) row.found = "interrupted";
  if (possible && !stop_) {
    const TimePoint began = monotonic_now();
    deadline_ = began + options_.timeout;
    unreachable_ = false;
    Finding finding = (this->*check)();
    row.took = monotonic_now() - began;
    if (finding) {
      // A finding that begins with a hyphen says why there was nothing to check.
      const bool skipped = finding->starts_with('-');
      row.outcome = skipped ? CheckOutcome::Skip : CheckOutcome::Pass;
      row.found = skipped ? finding->substr(2) : *finding;
    } else {
      row.outcome = stop_          ? CheckOutcome::Skip
                    : unreachable_ ? CheckOutcome::Unreachable
                                   : CheckOutcome::Fail;
      row.found = finding.error().text;
    }
  }
  report_.rows.push_back(std::move(row));
}

VerifyReport VerifyChecks::run() {
  http_rows();
  if (!targets_.chats.empty()) chat_rows();
  report_.interrupted = stop_;
  return std::move(report_);
}

}  // namespace dlb::loadgen
