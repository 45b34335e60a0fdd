#include "lb/ctl_view.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace dlb::lb {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kColumns = 10;
constexpr std::string_view kForeign = "the answer is none of a balancer's";
using Row = std::array<std::string, kColumns>;

// `text` is UTF-8, as the parser has checked: what follows a C2 is there. U+0080 to U+009F are controls, too.
std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c1 = byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    out += is_c1 || byte < ' ' || byte == 0x7F ? '?' : text[i];
    if (is_c1) ++i;
  }
  return out;
}

std::string text_at(const dom::element& json, std::string_view pointer) {
  std::string_view text;
  return json.at_pointer(pointer).get(text) == simdjson::SUCCESS ? printable(text) : std::string();
}
std::int64_t integer_at(const dom::element& json, std::string_view pointer) {
  std::int64_t number = 0;
  return json.at_pointer(pointer).get(number) == simdjson::SUCCESS ? number : 0;
}
double number_at(const dom::element& json, std::string_view pointer, double otherwise) {
  double number = 0;
  return json.at_pointer(pointer).get(number) == simdjson::SUCCESS ? number : otherwise;
}
bool true_at(const dom::element& json, std::string_view pointer) {
  bool value = false;
  return json.at_pointer(pointer).get(value) == simdjson::SUCCESS && value;
}
std::vector<std::string> texts_at(const dom::element& json, std::string_view pointer) {
  std::vector<std::string> out;
  dom::array array;
  if (json.at_pointer(pointer).get(array) != simdjson::SUCCESS) return out;
  for (const dom::element one : array) {
    std::string_view text;
    if (one.get(text) == simdjson::SUCCESS) out.push_back(printable(text));
  }
  return out;
}

CtlBackend backend_in(const dom::element& json) {
  CtlBackend out;
  out.id = text_at(json, "/id");
  out.url = text_at(json, "/url");
  out.state = text_at(json, "/state");
  out.in_flight = integer_at(json, "/in_flight");
  out.weight = integer_at(json, "/weight");
  out.feeds = integer_at(json, "/counters/connections/feed_busy");
  out.requests = integer_at(json, "/counters/requests");
  for (const char* one : {"/counters/responses/5xx", "/counters/failures/timeout", "/counters/failures/reset",
                          "/counters/failures/bad_response"}) {
    out.failed += integer_at(json, one);
  }
  out.score = number_at(json, "/score", 0);
  out.latency_ms = number_at(json, "/latency_ms", 0);
  out.cpu = number_at(json, "/cpu_percent", -1);
  out.memory = number_at(json, "/memory/unreclaimable_percent", -1);
  out.last_error = text_at(json, "/last_error/text");
  out.last_error_at = text_at(json, "/last_error/at");
  return out;
}

std::optional<CtlAutoscale> autoscale_in(const dom::element& json) {
  dom::element scale;
  if (json.at_pointer("/autoscale").get(scale) != simdjson::SUCCESS || !scale.is_object())
    return std::nullopt;
  CtlAutoscale out;
  out.min = integer_at(scale, "/min");
  out.max = integer_at(scale, "/max");
  out.desired = integer_at(scale, "/desired");
  out.running = integer_at(scale, "/running");
  out.pressed = true_at(scale, "/pressed");
  out.last_action = text_at(scale, "/last/action");
  out.last_instance = text_at(scale, "/last/instance");
  out.last_reason = text_at(scale, "/last/reason");
  out.last_at = text_at(scale, "/last/at");
  out.problem = text_at(scale, "/problem");
  dom::array instances;
  if (scale.at_pointer("/instances").get(instances) != simdjson::SUCCESS) return out;
  for (const dom::element one : instances) {
    const std::string phase = text_at(one, "/phase");
    out.serving += phase == "serving" ? 1 : 0;
    out.starting += phase == "starting" ? 1 : 0;
    out.draining += phase == "draining" ? 1 : 0;
    out.stopping += phase == "stopping" ? 1 : 0;
    out.resting += true_at(one, "/rests") ? 1 : 0;
  }
  return out;
}

// Calls `use` with the parsed document; the error: it is no JSON object, or lacks `needed`.
template <class Use>
Result<void> with_json(std::string_view text, std::string_view needed, Use&& use) {
  dom::parser parser;
  dom::element json;
  if (parser.parse(simdjson::padded_string(text)).get(json) != simdjson::SUCCESS || !json.is_object() ||
      json.at_pointer(needed).error() != simdjson::SUCCESS) {
    return Error{std::string(kForeign)};
  }
  use(json);
  return {};
}

std::string percent(double value) { return value < 0 ? "-" : fmt::format("{:.0f} %", value); }

std::string uptime(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, seconds));
  const std::int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (days > 0) return fmt::format("{} d {} h", days, hours % 24);
  if (hours > 0) return fmt::format("{} h {} min", hours, minutes % 60);
  return minutes > 0 ? fmt::format("{} min", minutes) : fmt::format("{} s", whole);
}

Row row_of(const CtlBackend& b) {
  return {b.id,
          b.state,
          std::to_string(b.in_flight),
          std::to_string(b.weight),
          fmt::format("{:.1f}", b.score),
          fmt::format("{:.1f} ms", b.latency_ms),
          percent(b.cpu),
          percent(b.memory),
          std::to_string(b.requests),
          std::to_string(b.failed)};
}

// `2 serving, 1 starting`; those that there are none of are left out.
std::string phases_text(const CtlAutoscale& a) {
  std::string out;
  const auto add = [&](std::int64_t count, std::string_view name) {
    if (count > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, name);
  };
  add(a.serving, "serving");
  add(a.starting, "starting");
  add(a.draining, "draining");
  add(a.stopping, "stopping");
  add(a.resting, "resting");
  return out.empty() ? out : " (" + out + ")";
}

std::string autoscale_text(const CtlAutoscale& a) {
  std::string out = fmt::format("autoscale · {} wanted of {} to {} · {} running{}{}", a.desired, a.min, a.max,
                                a.running, phases_text(a), a.pressed ? " · at capacity" : "");
  if (!a.last_action.empty())
    out += fmt::format(" · last at {}: {} {}, {}", a.last_at, a.last_action, a.last_instance, a.last_reason);
  out += '\n';
  if (!a.problem.empty()) out += fmt::format("autoscale: no instance can be started: {}\n", a.problem);
  return out;
}

std::string joined(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<CtlStatus> read_ctl_status(std::string_view text) {
  CtlStatus out;
  bool sound = false;
  auto read = with_json(text, "/backends", [&](const dom::element& json) {
    out.status = text_at(json, "/status");
    out.version = text_at(json, "/version");
    out.policy = text_at(json, "/policy");
    out.pid = integer_at(json, "/pid");
    out.generation = integer_at(json, "/configuration/generation");
    out.uptime_seconds = number_at(json, "/uptime_seconds", 0);
    out.predecessor_drains = true_at(json, "/predecessor_drains");
    out.autoscale = autoscale_in(json);
    dom::array backends;
    sound = json.at_pointer("/backends").get(backends) == simdjson::SUCCESS;
    if (!sound) return;
    for (const dom::element backend : backends) {
      sound = sound && backend.is_object();
      out.backends.push_back(backend_in(backend));
    }
  });
  if (!read) return read.error();
  if (!sound) return Error{std::string(kForeign)};
  return out;
}

Result<CtlBackend> read_ctl_backend(std::string_view text) {
  CtlBackend out;
  auto read = with_json(text, "/state", [&](const dom::element& json) { out = backend_in(json); });
  if (!read) return read.error();
  return out;
}

CtlError read_ctl_error(std::string_view text) {
  CtlError out;
  std::ignore = with_json(text, "/error", [&](const dom::element& json) {
    out = {text_at(json, "/error"), text_at(json, "/detail")};
  });
  return out;
}

Result<CtlReload> read_ctl_reload(std::string_view text) {
  CtlReload out;
  auto read = with_json(text, "/generation", [&](const dom::element& json) {
    out = {integer_at(json, "/generation"), integer_at(json, "/backends_added"),
           integer_at(json, "/backends_leaving"), texts_at(json, "/changed"),
           texts_at(json, "/needs_restart")};
  });
  if (!read) return read.error();
  return out;
}

std::string show_status(const CtlStatus& status) {
  std::string out =
      fmt::format("{} · policy {} · up {} · configuration {} · pid {} · dlb {}{}\n", status.status,
                  status.policy, uptime(status.uptime_seconds), status.generation, status.pid, status.version,
                  status.predecessor_drains ? " · the process before it still drains" : "");
  if (status.autoscale) out += autoscale_text(*status.autoscale);
  std::vector<Row> rows = {
      {"BACKEND", "STATE", "IN-FLIGHT", "WEIGHT", "SCORE", "LATENCY", "CPU", "MEMORY", "REQUESTS", "FAILED"}};
  for (const CtlBackend& backend : status.backends) rows.push_back(row_of(backend));
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    out += fmt::format("{:<{}}  {:<{}}", row[0], widths[0], row[1], widths[1]);
    for (std::size_t i = 2; i < kColumns; ++i) out += fmt::format("  {:>{}}", row[i], widths[i]);
    out += '\n';
  }
  for (const CtlBackend& backend : status.backends) {
    if (backend.ready() || backend.last_error.empty()) continue;
    out += fmt::format("{}: last error at {}: {}\n", backend.id, backend.last_error_at, backend.last_error);
  }
  return out;
}

std::string show_backend(const CtlBackend& backend) {
  return fmt::format("{}: {}, weight {}, {} in flight\n", backend.id, backend.state, backend.weight,
                     backend.in_flight);
}

std::string show_reload(const CtlReload& reload) {
  std::string out =
      fmt::format("reloaded: configuration {}, changed: {}", reload.generation, joined(reload.changed));
  if (reload.added + reload.leaving > 0)
    out += fmt::format("; backends: {} new, {} leaving", reload.added, reload.leaving);
  out += '\n';
  if (!reload.needs_restart.empty())
    out += fmt::format("these stay as they are until a restart: {}\n", joined(reload.needs_restart));
  return out;
}

}  // namespace dlb::lb
