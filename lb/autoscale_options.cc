#include "lb/autoscale_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace dlb::lb {
namespace {

constexpr std::string_view kPort = "{port}";

std::string instance_id(std::uint16_t port) { return "auto-" + std::to_string(port); }

// `7001` or `7001-7020`; first 0: it makes no sense.
std::pair<int, int> read_ports(std::string_view text) {
  int first = 0, last = 0;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, first);
  if (error != std::errc()) return {};
  last = first;
  if (at != end) {
    if (*at != '-') return {};
    const auto second = std::from_chars(at + 1, end, last);
    if (second.ec != std::errc() || second.ptr != end) return {};
  }
  if (first < 1 || last < first || last > 65535) return {};
  return {first, last};
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

}  // namespace

Result<std::vector<std::string>> split_command(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        words.back() += c;
      }
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\n') {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) words.emplace_back();
    if (c == '\'' || c == '"') {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return Error{fmt::format("the quote {} is not closed", quote)};
  return words;
}

Result<void> finish_autoscale_options(const LoadedOptions& loaded, Options& options) {
  AutoscaleOptions& scale = options.autoscale;
  scale.words.clear();
  scale.first_port = scale.last_port = 0;
  if (!scale.on()) {
    const AutoscaleOptions none;  // as which a printed configuration without it comes back
    const bool meant = !scale.ports.empty() || scale.min != none.min || scale.max != none.max;
    if (meant) return loaded.at("autoscale-command", "autoscaling needs a command to start instances by");
    return {};
  }
  auto words = split_command(scale.command);
  if (!words) return loaded.at("autoscale-command", words.error().text);
  if (words->empty() || words->front().empty())
    return loaded.at("autoscale-command", "there is no program in it");
  const bool has_port =
      std::ranges::any_of(*words, [](const std::string& word) { return word.find(kPort) != word.npos; });
  if (!has_port)
    return loaded.at("autoscale-command", "it has to say {port}: where the process is to listen");
  scale.words = std::move(*words);
  if (scale.max != 0 && scale.max < scale.min) {
    return loaded.at("autoscale-max", fmt::format("max = {} is less than min = {}", scale.max, scale.min));
  }
  const auto [first, last] = read_ports(scale.ports);
  if (first == 0) {
    return loaded.at("autoscale-ports",
                     fmt::format("\"{}\": give a range of ports, such as 7001-7020", scale.ports));
  }
  const int count = last - first + 1;
  if (const std::int64_t wanted = std::max(scale.min, scale.max); count < wanted) {
    return loaded.at("autoscale-ports",
                     fmt::format("{} are {} ports, {} = {} processes need as many at least", scale.ports,
                                 count, scale.max != 0 ? "max" : "min", wanted));
  }
  scale.first_port = static_cast<std::uint16_t>(first);
  scale.last_port = static_cast<std::uint16_t>(last);
  return {};
}

Result<void> check_autoscale_backends(const LoadedOptions& loaded, const Options& options) {
  const std::string clash = autoscale_clash(options.autoscale, options.backends);
  if (clash.empty()) return {};
  return loaded.at("autoscale-ports", clash);
}

std::string autoscale_clash(const AutoscaleOptions& options, std::span<const BackendOption> backends) {
  if (!options.on()) return {};
  for (const BackendOption& backend : backends) {
    const int port = backend.address.is_unix() ? 0 : backend.address.port();
    if (backend.address.is_loopback() && port >= options.first_port && port <= options.last_port)
      return fmt::format("backend \"{}\" is at port {}, which is one of {}", backend.id, port, options.ports);
    if (backend.id.starts_with("auto-"))
      return fmt::format("backend \"{}\": auto-PORT is what instances are called, give it another id",
                         backend.id);
  }
  return {};
}

std::uint32_t autoscale_most(const AutoscaleOptions& options) {
  if (!options.on()) return 0;
  const std::int64_t ports = options.last_port - options.first_port + 1;
  return static_cast<std::uint32_t>(
      options.max != 0 ? options.max : std::min(ports, static_cast<std::int64_t>(kAutoscaleMost)));
}

AutoscaleRules autoscale_rules(const AutoscaleOptions& options) {
  return {.min = static_cast<std::uint32_t>(options.min),
          .max = autoscale_most(options),
          .up_after = options.up_after,
          .idle_after = options.idle_after,
          .start_timeout = options.start_timeout,
          .replace_after = options.replace_after,
          .stop_timeout = options.stop_timeout};
}

BackendOption instance_backend(std::uint16_t port) {
  BackendOption backend;
  backend.id = instance_id(port);
  const std::string place = "127.0.0.1:" + std::to_string(port);
  backend.url = "http://" + place;
  if (const auto address = Address::parse(place); address) backend.address = *address;
  return backend;
}

std::vector<std::string> instance_command(const AutoscaleOptions& options, std::uint16_t port) {
  std::vector<std::string> words = options.words;
  for (std::string& word : words) {
    replace_all(word, kPort, std::to_string(port));
    replace_all(word, "{id}", instance_id(port));
  }
  return words;
}

}  // namespace dlb::lb
