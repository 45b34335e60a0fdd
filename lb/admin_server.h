// AdminServer: the admin listener (L13, L23), on the control thread: everything that changes state, and the
// read-only pages. What may be asked for, and by whom: admin_rules.h.
//
//   POST /lb/backends/ID/drain    no new request or connection; what runs goes on, idle ones are closed
//   POST /lb/backends/ID/ready    takes requests again, when its checks let it
//   POST /lb/backends/ID/weight?value=N
//   GET  /lb/backends/ID          each answers with the backend as /lb/status shows it
//   POST /lb/reload               as SIGHUP; answers when it is in force, 422 when it was refused
//   GET  /lb/health, /lb/status, /lb/metrics, /lb/events, /lb/dashboard (which needs no token: see there)
//
// Bodies are not looked at. Refused: a foreign Host or Origin 403, without the token of admin-token-file 401.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/http_server.h"
#include "common/log.h"
#include "common/mailbox.h"
#include "common/service_manager.h"
#include "lb/admin_counters.h"
#include "lb/admin_rules.h"
#include "lb/backend_events.h"
#include "lb/backend_set.h"
#include "lb/configuration.h"
#include "lb/event_stream.h"
#include "lb/options.h"
#include "lb/predecessor.h"
#include "lb/reloader.h"
#include "lb/status_pages.h"

namespace dlb::lb {

// The listening socket that admin-listen asks for, out of `inherited` when it is there; no descriptor when it
// is off. A port that is in use is an error when the option was given; by default it is only logged, since
// two balancers may share a machine.
Result<Fd> open_admin_listener(const Options& options, const LoadedOptions& loaded,
                               InheritedSockets& inherited, Log& log);

enum class AdminMail : std::uint8_t { Start, HandOver };

class AdminServer final : public HttpService, public MailboxHandler<AdminMail>, public ReloadWatcher {
 public:
  static constexpr std::size_t kMaxConnections = 64;

  // `loop` is the control thread's; all references but `options`, those of the start, must outlive it. Made
  // and destroyed while the loop does not run. It accepts at once, but behind a predecessor from start() on:
  // up to then that one answers.
  AdminServer(EventLoop& loop, Fd listener, const Options& options, const ConfigurationStore& configuration,
              StatusPages& pages, BackendEvents& events, const Predecessor& predecessor,
              AdminCounters& counters, EventFigures& event_figures, Log& log);
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  // Any thread, during an upgrade. After freeze() nothing changes any more, posts are answered 503, until
  // thaw(): what is told to the new process is all there is to tell. After hand_over() it is asked.
  void freeze();
  void thaw();
  void hand_over() { std::ignore = mail_.post(AdminMail::HandOver); }
  // Any thread; see above.
  void start() { std::ignore = mail_.post(AdminMail::Start); }
  void on_mail(AdminMail mail) override;

  // Before the loop runs: who reloads.
  void set_reloader(Reloader& reloader);

  void on_request(HttpToken token, const HttpRequest& request) override;
  void on_abandoned(HttpToken token) override;
  void on_reload_begins() override;
  void on_reload_ends(const ReloadOutcome& outcome) override;

 private:
  bool foreign(HttpToken token, const RequestHead& head);
  bool unauthorized(HttpToken token, const RequestHead& head);
  void serve_dashboard(HttpToken token);
  void serve_page(HttpToken token, const RequestHead& head);
  void serve_events(HttpToken token, const HttpRequest& request);
  void serve_backend(HttpToken token, const HttpRequest& request, const AdminRoute& route);
  void serve_reload(HttpToken token);
  bool frozen();
  void respond_frozen(HttpToken token);
  enum class Change : std::uint8_t { Done, BadValue, Frozen };
  Change change(const BackendSet& backends, Backend& backend, const AdminRoute& route,
                std::string_view query);

  EventLoop& loop_;
  const ConfigurationStore& configuration_;
  StatusPages& pages_;
  BackendEvents& events_;
  const Predecessor& predecessor_;
  AdminCounters& counters_;
  Log& log_;
  const std::string token_;  // empty: none is asked for
  const bool beyond_loopback_;
  std::vector<std::string> names_;  // by which a Host field may name us, beside loopback
  Reloader* reloader_ = nullptr;
  std::vector<HttpToken> reloads_asked_;  // for one that has not begun
  std::vector<HttpToken> reloads_begun_;  // for the one that is being read
  std::mutex mutex_;                      // of what freeze() freezes
  bool frozen_ = false;
  Fd listener_;  // until it accepts
  std::optional<HttpServer> server_;
  EventStream event_stream_;
  Mailbox<AdminMail> mail_;
};

}  // namespace dlb::lb
