#include "lb/ctl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/json_writer.h"
#include "lb/admin_options.h"
#include "lb/ctl_client.h"
#include "lb/ctl_options.h"
#include "lb/ctl_view.h"

namespace dlb::lb {
namespace {

constexpr auto kPause = std::chrono::milliseconds(100);  // between two looks

std::string encoded(std::string_view id) {
  std::string out;
  for (const char c : id) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

class Ctl {
 public:
  Ctl(const CtlOptions& options, const AdminClient& client) : options_(options), client_(client) {}

  CtlExit run(const CtlCommand& command) {
    switch (command.kind) {
      case CtlCommand::Kind::Status:
        return status(command.backends);
      case CtlCommand::Kind::Drain:
        return change(command.backends.front(), "/drain",
                      [](const CtlStatus& now, const CtlBackend& backend) {
                        return backend.in_flight == 0 && backend.feeds == 0 && !now.predecessor_drains;
                      });
      case CtlCommand::Kind::Ready:
        return change(command.backends.front(), "/ready",
                      [](const CtlStatus&, const CtlBackend& backend) { return backend.ready(); });
      case CtlCommand::Kind::Weight:
        return change(command.backends.front(), fmt::format("/weight?value={}", command.weight),
                      [](const CtlStatus&, const CtlBackend&) { return true; });
      case CtlCommand::Kind::Reload:
        return reload();
    }
    return CtlExit::Usage;
  }

 private:
  // With an exit code, all has been said.
  struct Asked {
    CtlExit exit = CtlExit::Done;
    std::string body;
    bool ok() const { return exit == CtlExit::Done; }
  };

  Asked ask(std::string_view method, const std::string& target) {
    const TimePoint until = monotonic_now() + options_.timeout;
    for (;;) {
      const auto answer = client_.ask(method, target, options_.timeout);
      if (!answer) return failed(CtlExit::Unreachable, "unreachable", answer.error().text);
      if (answer->status == 200) return {CtlExit::Done, answer->body};
      const CtlError error = read_ctl_error(answer->body);
      // Every path that is asked for is there: who doesn't know it is a backend, or a balancer's public
      // listener.
      if (error.code.empty() || error.code == "not_found" || answer->status == 405)
        return failed(CtlExit::Unreachable, "unreachable",
                      fmt::format("status {} from no balancer's admin listener", answer->status));
      if (error.code == "upgrading" && monotonic_now() < until) {
        std::this_thread::sleep_for(kPause);
        continue;
      }
      const bool forbidden = answer->status == 401 || answer->status == 403;
      return failed(forbidden ? CtlExit::Forbidden : CtlExit::NotSo, error.code, error.detail);
    }
  }

  Asked failed(CtlExit exit, std::string_view code, std::string_view detail) const {
    if (options_.json) {
      std::string text;
      JsonWriter(text).begin_object().field("error", code).field("detail", detail).end_object();
      std::printf("%s\n", text.c_str());
    } else {
      std::fprintf(stderr, "lb ctl: %.*s\n", static_cast<int>(detail.size()), detail.data());
    }
    return {exit, {}};
  }

  void print(std::string_view text, bool json) const {
    if (json != options_.json) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (!text.ends_with('\n')) std::fputc('\n', stdout);
  }

  // The status; `read` is false when the exit code of `asked` says why there is none.
  Asked read_status(CtlStatus& status) {
    Asked asked = ask("GET", "/lb/status");
    if (!asked.ok()) return asked;
    auto read = read_ctl_status(asked.body);
    if (!read) return failed(CtlExit::Unreachable, "unreachable", read.error().text);
    status = std::move(*read);
    return asked;
  }

  CtlExit status(const std::vector<std::string>& wanted) {
    CtlStatus now;
    const Asked asked = read_status(now);
    if (!asked.ok()) return asked.exit;
    if (wanted.empty()) print(asked.body, true);
    std::vector<CtlBackend> shown;
    for (const std::string& id : wanted) {
      const Asked one = ask("GET", "/lb/backends/" + encoded(id));
      if (!one.ok()) return one.exit;
      print(one.body, true);
      const auto backend = read_ctl_backend(one.body);
      if (!backend) return failed(CtlExit::Unreachable, "unreachable", backend.error().text).exit;
      shown.push_back(*backend);
    }
    if (!wanted.empty()) now.backends = std::move(shown);
    print(show_status(now), false);
    return std::ranges::all_of(now.backends, &CtlBackend::ready) ? CtlExit::Done : CtlExit::NotSo;
  }

  template <class Reached>
  CtlExit change(const std::string& id, const std::string& action, Reached&& reached) {
    const Asked asked = ask("POST", "/lb/backends/" + encoded(id) + action);
    if (!asked.ok()) return asked.exit;
    const auto backend = read_ctl_backend(asked.body);
    if (!backend) return failed(CtlExit::Unreachable, "unreachable", backend.error().text).exit;
    if (options_.wait == Duration::zero()) {
      print(asked.body, true);
      print(show_backend(*backend), false);
      return CtlExit::Done;
    }
    return wait_for(id, reached);
  }

  template <class Reached>
  CtlExit wait_for(const std::string& id, Reached&& reached) {
    const TimePoint until = monotonic_now() + options_.wait;
    for (;;) {
      CtlStatus now;
      const Asked asked = read_status(now);
      if (!asked.ok()) return asked.exit;
      const auto backend = std::ranges::find(now.backends, id, &CtlBackend::id);
      if (backend == now.backends.end())
        return failed(CtlExit::NotSo, "no_such_backend", id + " is gone").exit;
      if (reached(now, *backend)) {
        const Asked last = ask("GET", "/lb/backends/" + encoded(id));
        if (!last.ok()) return last.exit;
        print(last.body, true);
        print(show_backend(*backend), false);
        return CtlExit::Done;
      }
      if (monotonic_now() >= until) {
        return failed(CtlExit::NotSo, "timeout",
                      fmt::format(
                          "{} is {} with {} in flight{}{} when the time to wait is over", id, backend->state,
                          backend->in_flight,
                          backend->feeds > 0 ? fmt::format(", feeds on their way: {}", backend->feeds) : "",
                          now.predecessor_drains ? ", an older process drains" : ""))
            .exit;
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  CtlExit reload() {
    const Asked asked = ask("POST", "/lb/reload");
    if (!asked.ok()) return asked.exit;
    const auto read = read_ctl_reload(asked.body);
    if (!read) return failed(CtlExit::Unreachable, "unreachable", read.error().text).exit;
    print(asked.body, true);
    print(show_reload(*read), false);
    return CtlExit::Done;
  }

  const CtlOptions& options_;
  const AdminClient& client_;
};

int usage_error(const std::string& text) {
  std::fprintf(stderr, "lb ctl: %s\n", text.c_str());
  return static_cast<int>(CtlExit::Usage);
}

// For the Host field: the listener refuses names that are none of its own.
std::string host_of(const CtlOptions& options, const Address& address) {
  const std::string& text = options.admin_listen;
  return address.is_unix() ? "localhost" : text.starts_with(':') ? "localhost" + text : text;
}

}  // namespace

int ctl_main(int argc, const char* const* argv, const char* const* environment) {
  std::vector<const char*> arguments(argv, argv + argc);
  CtlOptions options;
  if (auto taken = take_balancer_configuration(arguments, options); !taken)
    return usage_error(taken.error().text);
  const auto loaded = load_options(kCtlOptionTable, options, static_cast<int>(arguments.size()),
                                   arguments.data(), environment);
  if (!loaded) return usage_error(loaded.error().text);
  if (const auto code = finish_action(kCtlOptionTable, *loaded, options)) return *code;
  const auto command = ctl_command(*loaded);
  if (!command) return usage_error(command.error().text);
  if (options.admin_listen.empty() || options.admin_listen == "off")
    return usage_error(loaded->at("admin-listen", "the balancer has no admin listener").text);
  const auto address = Address::parse(options.admin_listen);
  if (!address) return usage_error(loaded->at("admin-listen", address.error().text).text);
  std::string token;
  if (!options.admin_token_file.empty()) {
    auto read = read_admin_token(options.admin_token_file);
    if (!read) return usage_error(loaded->at("admin-token-file", read.error().text).text);
    token = std::move(*read);
  }
  const AdminClient client(*address, host_of(options, *address), std::move(token));
  return static_cast<int>(Ctl(options, client).run(*command));
}

}  // namespace dlb::lb
