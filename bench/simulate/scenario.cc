#include "bench/simulate/scenario.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include "common/config_file.h"
#include "common/option.h"
#include "common/units.h"

namespace dlb::bench {
namespace {

constexpr std::pair<std::string_view, EpisodeKind> kEpisodes[] = {
    {"slow", EpisodeKind::Slow},       {"errors", EpisodeKind::Errors},       {"reset", EpisodeKind::Reset},
    {"hang", EpisodeKind::Hang},       {"drop", EpisodeKind::Drop},           {"refuse", EpisodeKind::Refuse},
    {"restart", EpisodeKind::Restart}, {"unhealthy", EpisodeKind::Unhealthy},
};
constexpr std::int64_t kMaxServers = 10'000;

// Reads one table key by key; keeps the first error, and at the end names keys that nobody asked for.
class Reader {
 public:
  Reader(const ConfigValue& table, std::string file) : table_(table), file_(std::move(file)) {
    if (table.kind != ConfigValue::Kind::Table) fail(table, "use a table");
  }

  const ConfigValue* find(std::string_view key) {
    asked_.insert(key);
    for (const ConfigEntry& entry : table_.entries) {
      if (entry.key == key) return &entry.value;
    }
    return nullptr;
  }
  void text(std::string_view key, std::string& out) {
    const ConfigValue* value = find(key);
    if (value == nullptr) return;
    if (value->kind != ConfigValue::Kind::String) return fail(*value, "use a string");
    out = value->text;
  }
  void time(std::string_view key, Duration& out) {
    std::string text;
    this->text(key, text);
    if (text.empty()) return;
    const auto parsed = parse_duration(text);
    if (!parsed) return fail(*find(key), parsed.error().text);
    out = *parsed;
  }
  void service(std::string_view key, ServiceTime& out) {
    std::string text;
    this->text(key, text);
    if (text.empty()) return;
    auto parsed = ServiceTime::parse(text);
    if (!parsed) return fail(*find(key), parsed.error().text);
    out = std::move(*parsed);
  }
  void number(std::string_view key, double low, double high, double& out) {
    const ConfigValue* value = find(key);
    if (value == nullptr) return;
    const bool whole = value->kind == ConfigValue::Kind::Integer;
    if (!whole && value->kind != ConfigValue::Kind::Real) return fail(*value, "use a number");
    const double given = whole ? static_cast<double>(value->integer) : value->real;
    if (!(given >= low && given <= high)) return fail(*value, "out of range");
    out = given;
  }
  void integer(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t& out) {
    double value = static_cast<double>(out);
    number(key, static_cast<double>(low), static_cast<double>(high), value);
    if (value != std::floor(value)) return fail(*find(key), "use a whole number");
    out = static_cast<std::int64_t>(value);
  }
  void flag(std::string_view key, bool& out) {
    const ConfigValue* value = find(key);
    if (value == nullptr) return;
    if (value->kind != ConfigValue::Kind::Bool) return fail(*value, "use true or false");
    out = value->boolean;
  }
  // Each table of an array of tables.
  void each(std::string_view key, const std::function<void(Reader&)>& take) {
    const ConfigValue* value = find(key);
    if (value == nullptr) return;
    if (value->kind != ConfigValue::Kind::Array) return fail(*value, "use [[" + std::string(key) + "]]");
    for (const ConfigValue& item : value->items) {
      Reader reader(item, file_);
      take(reader);
      reader.finish();
      if (error_.text.empty()) error_ = reader.error_;
    }
  }
  void fail(const ConfigValue& at, std::string_view what) {
    if (!error_.text.empty()) return;
    error_.text =
        file_ + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + std::string(what);
  }
  void fail(std::string_view what) { fail(table_, what); }
  void finish() {
    for (const ConfigEntry& entry : table_.entries) {
      if (!asked_.contains(entry.key)) fail(entry.value, "unknown key `" + entry.key + "`");
    }
  }
  const Error& error() const { return error_; }

 private:
  const ConfigValue& table_;
  std::string file_;
  std::set<std::string_view> asked_;
  Error error_;
};

// Times of episodes of the n-th server of a group are `stagger` × n later.
struct EpisodeRow {
  Episode episode;
  std::int64_t server = -1;   // of the group; -1: each
  std::int64_t servers = -1;  // the first so many of the group
  Duration stagger{};
};

void read_episode(Reader& reader, std::vector<EpisodeRow>& rows) {
  EpisodeRow row;
  std::string kind;
  reader.text("kind", kind);
  bool known = false;
  for (const auto& [name, value] : kEpisodes) {
    if (name != kind) continue;
    row.episode.kind = value;
    known = true;
  }
  if (!known) reader.fail("kind: use slow, errors, reset, hang, drop, refuse, restart or unhealthy");
  reader.time("from", row.episode.from);
  reader.time("for", row.episode.length);
  reader.time("notice", row.episode.notice);
  reader.time("stagger", row.stagger);
  reader.number("factor", 0.001, 1e6, row.episode.factor);
  reader.number("share", 0, 1, row.episode.share);
  reader.integer("server", -1, kMaxServers, row.server);
  reader.integer("servers", -1, kMaxServers, row.servers);
  rows.push_back(row);
}

void read_servers(Reader& reader, std::vector<ServerSpec>& servers) {
  ServerSpec spec;
  std::int64_t count = 1;
  std::string id;
  reader.text("id", id);
  reader.integer("count", 1, kMaxServers, count);
  reader.integer("capacity", 0, 1'000'000, spec.capacity);
  reader.integer("queue", 0, 1'000'000, spec.queue);
  reader.service("service", spec.service);
  reader.integer("weight", 0, 65535, spec.weight);
  reader.time("start-up", spec.start_up);
  reader.time("warm-up", spec.warm_up);
  reader.number("warm-up-factor", 1, 1000, spec.warm_up_factor);
  std::vector<EpisodeRow> rows;
  reader.each("episode", [&](Reader& episode) { read_episode(episode, rows); });
  for (std::int64_t i = 0; i < count; ++i) {
    ServerSpec one = spec;
    one.id = (id.empty() ? "s" : id) + (id.empty() || count > 1 ? std::to_string(servers.size() + 1) : "");
    for (const EpisodeRow& row : rows) {
      if (row.server >= 0 && row.server != i) continue;
      if (row.servers >= 0 && i >= row.servers) continue;
      one.episodes.push_back(row.episode);
      one.episodes.back().from += row.stagger * i;
    }
    servers.push_back(std::move(one));
  }
}

void read_arrivals(Reader& reader, std::vector<ArrivalSpec>& arrivals) {
  ArrivalSpec spec;
  reader.number("rate", 0, 1e7, spec.rate);
  reader.number("low-rate", 0, 1e7, spec.low_rate);
  reader.time("period", spec.period);
  reader.time("from", spec.from);
  reader.time("until", spec.until);
  reader.integer("requests", 0, 1'000'000'000, spec.requests);
  reader.flag("even", spec.even);
  reader.time("burst-every", spec.burst_every);
  reader.time("burst-for", spec.burst_for);
  reader.number("burst-factor", 0, 1e6, spec.burst_factor);
  if (spec.rate <= 0) reader.fail("rate: above 0");
  arrivals.push_back(spec);
}

void read_users(Reader& reader, std::vector<UserSpec>& users) {
  UserSpec spec;
  reader.integer("count", 1, 1'000'000, spec.count);
  reader.service("think", spec.think);
  reader.time("from", spec.from);
  reader.time("until", spec.until);
  users.push_back(spec);
}

// As a person types it on the command line.
std::string word_of(const ConfigValue& value) {
  switch (value.kind) {
    case ConfigValue::Kind::Bool:
      return value.boolean ? "true" : "false";
    case ConfigValue::Kind::Integer:
      return std::to_string(value.integer);
    case ConfigValue::Kind::Real:
      return std::to_string(value.real);
    default:
      return value.text;
  }
}

// [balancer] through the balancer's own option table: names, bounds and rules are its own.
void read_balancer(Reader& reader, Scenario& scenario) {
  std::vector<std::string> words = {"lb"};
  const ConfigValue* table = reader.find("balancer");
  if (table != nullptr) {
    for (const ConfigEntry& entry : table->entries) {
      words.push_back("--" + entry.key);
      words.push_back(word_of(entry.value));
    }
  }
  // [autoscale] likewise: the servers are those that can be started, one after the other.
  if (const ConfigValue* scale = reader.find("autoscale"); scale != nullptr) {
    table = scale;
    for (const ConfigEntry& entry : scale->entries) {
      words.push_back("--autoscale-" + entry.key);
      words.push_back(word_of(entry.value));
    }
    const std::size_t first = 20'000;  // no server's address
    words.insert(words.end(), {"--autoscale-command=server {port}",
                               "--autoscale-ports=" + std::to_string(first) + "-" +
                                   std::to_string(first + scenario.servers.size() - 1)});
  }
  std::string urls;
  for (std::size_t i = 0; i < scenario.servers.size(); ++i) {
    urls += (i == 0 ? "http://127.0.0.1:" : ",http://127.0.0.1:") + std::to_string(i + 1);
  }
  words.insert(words.end(), {"--backends", urls});
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const char* const nothing[] = {nullptr};
  const auto loaded = load_options(lb::kOptionTable, scenario.options, static_cast<int>(arguments.size()),
                                   arguments.data(), nothing);
  if (!loaded)
    return table != nullptr ? reader.fail(*table, loaded.error().text) : reader.fail(loaded.error().text);
  if (const auto done = lb::finish_options(*loaded, scenario.options); !done) {
    return reader.fail(done.error().text);
  }
  for (std::size_t i = 0; i < scenario.servers.size(); ++i) {
    scenario.options.backends[i].id = scenario.servers[i].id;
    scenario.options.backends[i].weight = scenario.servers[i].weight;
  }
}

void read_policies(Reader& reader, Scenario& scenario) {
  const ConfigValue* list = reader.find("policies");
  if (list == nullptr) return;
  for (const ConfigValue& item : list->items) {
    if (!lb::policy_from_name(item.text)) return reader.fail(item, "no policy of that name");
    scenario.policies.push_back(item.text);
  }
}

Result<Scenario> scenario_of(const ConfigValue& root, const std::string& file) {
  Scenario scenario;
  scenario.name = std::filesystem::path(file).stem().string();
  Reader reader(root, file);
  std::int64_t seed = 1;
  reader.text("about", scenario.about);
  reader.time("duration", scenario.duration);
  reader.time("judged-from", scenario.judged_from);
  reader.time("network", scenario.network);
  reader.integer("seed", 0, 1'000'000'000'000, seed);
  scenario.seed = static_cast<std::uint64_t>(seed);
  reader.each("servers", [&](Reader& one) { read_servers(one, scenario.servers); });
  reader.each("arrivals", [&](Reader& one) { read_arrivals(one, scenario.arrivals); });
  reader.each("users", [&](Reader& one) { read_users(one, scenario.users); });
  if (scenario.servers.empty()) reader.fail("[[servers]]: at least one");
  if (scenario.servers.size() > kMaxServers) reader.fail("[[servers]]: at most 10,000");
  if (scenario.arrivals.empty() && scenario.users.empty())
    reader.fail("[[arrivals]] or [[users]]: at least one");
  if (reader.error().text.empty()) read_balancer(reader, scenario);
  read_policies(reader, scenario);
  reader.finish();
  if (!reader.error().text.empty()) return reader.error();
  return scenario;
}

}  // namespace

bool set_policy(lb::Options& options, std::string_view name) {
  const auto kind = lb::policy_from_name(name);
  if (!kind) return false;
  options.policy = name;
  options.policy_kind = *kind;
  return true;
}

Result<Scenario> parse_scenario(std::string_view text, const std::string& file_name) {
  const auto root = parse_config(text, file_name);
  if (!root) return root.error();
  return scenario_of(*root, file_name);
}

Result<Scenario> read_scenario(const std::string& path) {
  const auto root = read_config_file(path);
  if (!root) return root.error();
  return scenario_of(*root, path);
}

}  // namespace dlb::bench
