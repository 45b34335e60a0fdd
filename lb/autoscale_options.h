// The table [autoscale]: its rows for options.cc, and the rules across them. The values are AutoscaleOptions'
// in options.h. Start-up and control thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/option.h"
#include "common/result.h"
#include "lb/options.h"
#include "lb/policy/autoscaler.h"

namespace dlb::lb {

inline constexpr Duration kAutoscaleMaxTime = std::chrono::hours(24);
inline constexpr double kAutoscaleMost = 256;  // processes

inline constexpr OptionRow kAutoscaleRows[] = {
    option<&AutoscaleOptions::command>(
        "command", {.apply = Apply::Restart,
                    .help = "What is started: split into words, no shell; {port} and {id} are filled in. "
                            "Empty: no autoscaling."}),
    option<&AutoscaleOptions::min>(
        "min", {.min = 1, .max = kAutoscaleMost, .unit = "processes", .help = "That run at least."}),
    option<&AutoscaleOptions::max>(
        "max",
        {.max = kAutoscaleMost, .unit = "processes", .help = "That run at most; 0: one for each port."}),
    option<&AutoscaleOptions::ports>(
        "ports", {.unit = "ports", .help = "FIRST-LAST: where they listen, on 127.0.0.1; one each."}),
    option<&AutoscaleOptions::up_after>(
        "up-after", {.max = kAutoscaleMaxTime,
                     .help = "All at capacity, or requests waiting, for that long: another is started."}),
    option<&AutoscaleOptions::idle_after>(
        "idle-after", {.min = std::chrono::milliseconds(10),
                       .max = kAutoscaleMaxTime,
                       .help = "Without a request for that long: one over min is drained and stopped."}),
    option<&AutoscaleOptions::interval>("interval", {.min = std::chrono::milliseconds(10),
                                                     .max = std::chrono::minutes(10),
                                                     .help = "Time between two decisions."}),
    option<&AutoscaleOptions::start_timeout>("start-timeout",
                                             {.min = std::chrono::milliseconds(10),
                                              .max = kAutoscaleMaxTime,
                                              .help = "Not healthy within it: replaced; a failed start."}),
    option<&AutoscaleOptions::replace_after>("replace-after",
                                             {.min = std::chrono::milliseconds(10),
                                              .max = kAutoscaleMaxTime,
                                              .help = "Down for that long, having been up: replaced."}),
    option<&AutoscaleOptions::stop_timeout>(
        "stop-timeout",
        {.min = std::chrono::milliseconds(10),
         .max = kAutoscaleMaxTime,
         .help = "From SIGTERM to SIGKILL of a process; also when the balancer has ended or is gone."}),
};

// Part of finish_options(), before the backends are judged: reads command and ports. The error is one line
// that says where and what.
Result<void> finish_autoscale_options(const LoadedOptions& loaded, Options& options);
// Likewise, when the backends are known: none may have an instance's name or place.
Result<void> check_autoscale_backends(const LoadedOptions& loaded, const Options& options);

// Why `backends`, those of a file, can't stand beside instances: one has an instance's name or place. Empty:
// they can.
std::string autoscale_clash(const AutoscaleOptions& options, std::span<const BackendOption> backends);

// A command in words: split at blanks, what stands in '…' or "…" taken together.
Result<std::vector<std::string>> split_command(std::string_view text);

// Processes at most; 0: no autoscaling.
std::uint32_t autoscale_most(const AutoscaleOptions& options);

// The rule's share of the options.
AutoscaleRules autoscale_rules(const AutoscaleOptions& options);

// The instance at `port` as a backend: `auto-7001`, http://127.0.0.1:7001.
BackendOption instance_backend(std::uint16_t port);
// The words with port and id filled in.
std::vector<std::string> instance_command(const AutoscaleOptions& options, std::uint16_t port);

}  // namespace dlb::lb
