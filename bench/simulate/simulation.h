// Simulation: plays a scenario in virtual time with the balancer's own classes: Router with its policies,
// BackendSet, HealthStreak and backend_health.h, Ejections, WaitingLine, ProbeSchedule, Autoscaler. What
// stands here is what stands between them in the balancer (worker.cc, exchange_failure.cc, health_checker.cc)
// for one worker and requests that may be sent again, and the world: clients, servers, the network.
//
//   arrival ─▶ route ─▶ sent ─▶ (waits at the server) ─▶ served ─▶ answered
//                │                 └─ refused, broken ─▶ route, once more
//                └─ Full ─▶ queued ─▶ sent
//
// One seed decides everything: the n-th request draws its luck from the seed and n, whoever serves it, so
// that policies meet the same requests. Single-threaded; no clock is read.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "bench/simulate/outcome.h"
#include "bench/simulate/scenario.h"
#include "bench/simulate/sim_server.h"
#include "common/rng.h"
#include "lb/backend_health.h"
#include "lb/backend_set.h"
#include "lb/ejections.h"
#include "lb/policy/autoscaler.h"
#include "lb/probe_schedule.h"
#include "lb/router.h"
#include "lb/waiting_line.h"

namespace dlb::bench {

class Simulation final : public lb::WaitingLine::Observer {
 public:
  // `scenario` must outlive it. Requires a policy that exists.
  Simulation(const Scenario& scenario, const std::string& policy);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  ~Simulation();

  // Plays it to the end: no more arrivals, and all requests answered. Once.
  Outcome run();

 private:
  enum class EventKind : std::uint8_t {
    Arrival,   // the next of stream `a`
    UserAsks,  // user `a`
    Reached,   // request `a`: its bytes are at the server
    Refused,   // request `a`: its connect
    ConnectTimeout,
    Served,        // request `a`: the server has done its work
    Answered,      // request `a`: its answer is back
    HeadTimeout,   // request `a`
    QueueTimeout,  // request `a`
    Check,         // of backend `a`
    CheckDone,
    Poll,        // of backend `a`'s statistics
    Sample,      // of what ejection looks at
    LookAgain,   // an ejection is over
    Death,       // of server `a`, with what runs on it
    Scale,       // the autoscaler's turn
    FirstCheck,  // of backend `a`, whose process has just started
  };
  struct Event {
    TimePoint at;
    std::uint64_t order;
    EventKind kind;
    std::uint32_t a;
    std::uint32_t life;
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  enum class State : std::uint8_t { Free, Queued, AwaitsRetry, Sent, InLine, InService };
  struct Request final : lb::Waiter {
    explicit Request(Simulation& owner) : simulation(owner) {}
    lb::TransportClass transport_class() const override { return lb::TransportClass::Message; }
    std::span<const std::uint32_t> tried() const override { return {&tried_backend, was_tried ? 1U : 0U}; }
    void on_slot(const lb::Choice& choice) override { simulation.send(*this, choice); }
    void on_retry_granted() override { simulation.retry(*this); }

    Simulation& simulation;
    State state = State::Free;
    std::uint32_t index = 0;
    std::uint32_t life = 0;  // events of an earlier one, or of an earlier attempt, are stale
    std::uint64_t number = 0;
    TimePoint arrived{}, picked{};
    std::uint32_t backend = 0;
    std::uint32_t user = 0;  // 0: none, else user - 1
    std::uint32_t tried_backend = 0;
    int status = 0;
    bool was_tried = false, retried = false, retry_held = false;
  };
  struct Stream {
    const ArrivalSpec* spec;
    Rng rng;
    std::int64_t come = 0;
  };
  struct User {
    const UserSpec* spec;
    Rng rng;
  };
  struct Monitor {  // of one backend
    lb::ProbeSchedule checks, polls;
    lb::HealthStreak streak;
    bool checking = false;
    std::uint32_t process = 0;  // which one it is, of those that autoscaling starts
    TimePoint began{};
    lb::CheckVerdict verdict{};
  };

  void schedule(TimePoint at, EventKind kind, std::uint32_t a, std::uint32_t life = 0);
  void handle(const Event& event);
  void on_request_event(const Event& event, Request& request);
  // traffic.cc
  void arrive(std::uint32_t user);
  void next_arrival(std::uint32_t stream);
  void route(Request& request);
  void send(Request& request, const lb::Choice& choice);
  void reach(Request& request);
  void serve(Request& request);
  void answer(Request& request);
  void fail(Request& request, Failure failure);
  void note_failed(Request& request);
  void give_back(Request& request);
  void leave_server(Request& request);
  void finish(Request& request, Failure failure);
  void retry(Request& request);
  void on_line_changed() override {}
  // monitors.cc
  void start_check(std::uint32_t backend);
  void check(std::uint32_t backend);
  void finish_check(std::uint32_t backend, std::uint32_t process);
  void poll(std::uint32_t backend);
  void carry_out(std::uint32_t backend, const lb::OutlierDecision& decision);
  void die(std::uint32_t server);
  void break_off(std::uint32_t server);
  // scaling.cc
  void begin_scaling();
  void scale();
  void carry_out(const lb::AutoscaleAction& action);
  void switch_off(std::uint32_t server);
  void switch_on_next();
  void note_scaling(const lb::AutoscaleAction& action, std::uint32_t server);

  OutcomeBucket& bucket_at(TimePoint when);
  lb::Backend& backend(std::uint32_t index) { return backends_->at(index); }

  const Scenario& scenario_;
  lb::Options options_;
  const TimePoint zero_;
  const TimePoint end_;
  TimePoint now_;
  std::unique_ptr<lb::BackendSet> backends_;
  lb::Router router_;
  lb::Ejections ejections_;
  lb::SlotCounter waiting_;
  lb::WaitingLine line_;
  std::deque<SimServer> servers_;
  std::vector<Monitor> monitors_;
  std::optional<lb::Autoscaler> scaler_;
  std::vector<std::uint32_t> running_;  // with it: servers, the eldest first
  std::uint32_t last_started_ = 0;
  std::vector<TimePoint> last_busy_;  // by server
  std::vector<Stream> streams_;
  std::vector<User> users_;
  std::deque<Request> requests_;
  std::vector<std::uint32_t> free_;
  std::uint64_t in_progress_ = 0, numbers_ = 0, orders_ = 0;
  bool serve_again_ = false;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Outcome outcome_;
};

}  // namespace dlb::bench
