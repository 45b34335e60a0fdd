// What `loadgen verify` has found, check by check, as a table for people and as JSON. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"

namespace dlb::loadgen {

enum class CheckOutcome : std::uint8_t {
  Pass,
  Fail,
  Skip,         // it could not be made, or there is nothing to check
  Unreachable,  // nothing answers there: the deployment was not reached
};

struct CheckRow {
  std::string_view name;
  CheckOutcome outcome = CheckOutcome::Skip;
  Duration took{};
  std::string found;      // one line: what was seen, or what is wrong
  std::string_view hint;  // what to look at when it failed
};

struct VerifyReport {
  std::string url;
  std::vector<CheckRow> rows;
  bool interrupted = false;

  std::size_t count(CheckOutcome outcome) const;
};

// 0 when nothing failed, 2 when something was not reached, 3 when a check failed, 130 interrupted.
int exit_code(const VerifyReport& report);
// `pass  feed has it once      12 ms  ...`, with a line `look at: …` under each that failed.
std::string verify_text(const VerifyReport& report);
std::string verify_json(const VerifyReport& report);

}  // namespace dlb::loadgen
