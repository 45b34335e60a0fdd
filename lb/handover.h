// What a balancer tells the one that takes its place in an upgrade (lb/upgrade.h), per backend: its health,
// what an operator has set, its ejection. Text, a line a backend, so that two versions understand each other:
//
//   ID URL ready|drain|maintenance up|down|unknown NAME=NUMBER…
//
//   weight, file-weight        a weight that was set goes on while the file says what it said, as in a reload
//   ejected-until-ns, ejected  of the ejection or probation, on the machine's monotonic clock; and which one
//                              it was in a row
//
// Other names are ignored, and so are lines of backends that the reader doesn't have at that URL. The reader
// checks everything for itself before it accepts; this keeps one failed check from taking out a backend that
// has been up, and a drain or an ejection from ending with the process that knew of it.
#pragma once

#include <string>
#include <string_view>

#include "lb/backend_events.h"
#include "lb/backend_set.h"

namespace dlb::lb {

// `options`: those that `backends` were configured by.
std::string describe_backends(const BackendSet& backends, const Options& options);

// Before the first check, and before anybody else looks at them. Lines that make no sense are passed over.
// Returns how many backends were told of.
std::size_t take_over_backends(const BackendSet& backends, const Options& options, std::string_view text);

// While the process that was taken over from still drains, it hears what is set from now on, a line each:
//
//   ID URL ready|drain|maintenance weight=NUMBER
std::string describe_setting(const Backend& backend);
// Takes such a line over and tells of it; false when it makes no sense or there is no such backend. Any
// thread.
bool take_over_setting(const BackendSet& backends, std::string_view line, BackendEvents& events);

// After a backend's admin state or weight has changed: those who wait for it, or have connections to it.
void tell_of_setting(const BackendSet& backends, const Backend& backend, BackendEvents& events);

}  // namespace dlb::lb
