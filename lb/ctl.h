// `lb ctl`: a command-line client of a running balancer's admin listener, for people (a table, a line) and
// for scripts (--json: the balancer's own answer). The token comes from a file only, never from the command
// line, where every user of the machine could read it. A post that an upgrade refuses is asked again, of the
// new process, within the timeout.
#pragma once

namespace dlb::lb {

// Exit codes of `lb ctl`; the table is in lb/README.md.
enum class CtlExit : int {
  Done = 0,
  NotSo = 1,  // refused, or it did not come to pass: a bad configuration, no such backend, --wait is over;
              // of status: a backend is not ready
  Usage = 2,  // the command line, a file that it names
  Unreachable = 3,  // nobody answers, or nobody that is a balancer
  Forbidden = 4,    // the token is missing or wrong, or this address may not ask
};

// `argv[0]` is "ctl". Returns the exit code.
int ctl_main(int argc, const char* const* argv, const char* const* environment);

}  // namespace dlb::lb
