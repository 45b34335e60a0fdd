#include "lb/handover.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>

#include "lb/options.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::string_view kAdminNames[] = {"ready", "drain", "maintenance"};  // as AdminState
constexpr std::string_view kHealthNames[] = {"unknown", "up", "down"};         // as HealthState

constexpr std::int64_t kMaxWeight = 65535;
constexpr std::int64_t kMostEjections = 1000;  // far beyond the longest cooldown

// The next word of a line; empty at its end.
std::string_view word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view found = line.substr(0, end);
  line.remove_prefix(std::min(line.size(), end + 1));
  return found;
}

template <std::size_t N>
int index_of(const std::string_view (&names)[N], std::string_view name) {
  const auto found = std::ranges::find(names, name);
  return found == std::end(names) ? -1 : static_cast<int>(found - std::begin(names));
}

// One of the configuration's backends, and what its file says of it.
struct Found {
  Backend* backend = nullptr;
  std::int64_t file_weight = 0;
};

Found find(const BackendSet& backends, const Options& options, std::string_view id, std::string_view url) {
  const BackendSet::Members& members = backends.members();
  for (std::size_t i = 0; i < members.size() && i < options.backends.size(); ++i) {
    Backend& backend = backends.at(members[i]);
    if (backend.id == id && backend.url == url) return {&backend, options.backends[i].weight};
  }
  return {};
}

// The number behind `name` in `rest`, which is NAME=NUMBER words; nothing when it isn't there.
std::optional<std::int64_t> number_of(std::string_view rest, std::string_view name) {
  while (!rest.empty()) {
    const std::string_view one = word(rest);
    if (!one.starts_with(name) || !one.substr(name.size()).starts_with('=')) continue;
    const std::string_view digits = one.substr(name.size() + 1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size() && number >= 0) return number;
  }
  return std::nullopt;
}

void take_numbers(Backend& backend, std::int64_t file_weight, std::string_view rest) {
  const auto weight = number_of(rest, "weight");
  if (weight && *weight <= kMaxWeight && number_of(rest, "file-weight") == file_weight)
    backend.weight.store(static_cast<std::uint32_t>(*weight), kRelaxed);
  const std::int64_t times = number_of(rest, "ejected").value_or(0);
  backend.ejection.times.store(static_cast<std::uint32_t>(std::min(times, kMostEjections)), kRelaxed);
  backend.ejected_until_ns.store(number_of(rest, "ejected-until-ns").value_or(0), kRelaxed);
}

bool take_line(const BackendSet& backends, const Options& options, std::string_view line) {
  const std::string_view id = word(line);
  const std::string_view url = word(line);
  const int admin = index_of(kAdminNames, word(line));
  const int health = index_of(kHealthNames, word(line));
  if (admin < 0 || health < 0) return false;
  const auto [backend, file_weight] = find(backends, options, id, url);
  if (backend == nullptr) return false;
  take_numbers(*backend, file_weight, line);
  backend->admin.store(static_cast<AdminState>(admin), kRelaxed);
  backend->active_health.store(static_cast<HealthState>(health), kRelaxed);
  backend->healthy.store(static_cast<HealthState>(health) == HealthState::Up, kRelaxed);
  return true;
}

}  // namespace

std::string describe_backends(const BackendSet& backends, const Options& options) {
  std::string text;
  const auto add = [&text](std::string_view name, std::int64_t number) {
    text.append(" ").append(name).append("=").append(std::to_string(number));
  };
  const BackendSet::Members& members = backends.members();
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Backend& backend = backends.at(members[i]);
    text += backend.id;
    text += ' ';
    text += backend.url;
    text += ' ';
    text += kAdminNames[static_cast<std::size_t>(backend.admin.load(kRelaxed))];
    text += ' ';
    text += kHealthNames[static_cast<std::size_t>(backend.active_health.load(kRelaxed))];
    add("weight", backend.weight.load(kRelaxed));
    if (i < options.backends.size()) add("file-weight", options.backends[i].weight);
    add("ejected-until-ns", backend.ejected_until_ns.load(kRelaxed));
    add("ejected", backend.ejection.times.load(kRelaxed));
    text += '\n';
  }
  return text;
}

std::size_t take_over_backends(const BackendSet& backends, const Options& options, std::string_view text) {
  std::size_t told = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (take_line(backends, options, text.substr(0, end))) ++told;
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return told;
}

std::string describe_setting(const Backend& backend) {
  std::string text = backend.id + ' ' + backend.url + ' ';
  text += kAdminNames[static_cast<std::size_t>(backend.admin.load(kRelaxed))];
  return text + " weight=" + std::to_string(backend.weight.load(kRelaxed));
}

bool take_over_setting(const BackendSet& backends, std::string_view line, BackendEvents& events) {
  const std::string_view id = word(line);
  const std::string_view url = word(line);
  const int admin = index_of(kAdminNames, word(line));
  const auto weight = number_of(line, "weight");
  if (admin < 0 || !weight || *weight > kMaxWeight) return false;
  for (const std::uint32_t index : backends.members()) {
    Backend& backend = backends.at(index);
    if (backend.id != id || backend.url != url) continue;
    backend.admin.store(static_cast<AdminState>(admin), kRelaxed);
    backend.weight.store(static_cast<std::uint32_t>(*weight), kRelaxed);
    tell_of_setting(backends, backend, events);
    return true;
  }
  return false;
}

void tell_of_setting(const BackendSet& backends, const Backend& backend, BackendEvents& events) {
  backends.note_change();
  if (backend.admin.load(kRelaxed) == AdminState::Ready) {
    events.on_capacity_change(backend.index);
  } else {
    events.on_backend_out(backend.index);
  }
}

}  // namespace dlb::lb
