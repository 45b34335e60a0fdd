// Shared: what the workers of one process have in common, and the mail they get. Small by design: which
// configuration is in force, a few bounded counters and the bitmap by which a freed slot finds a waiting
// worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "lb/backend_set.h"
#include "lb/configuration.h"
#include "lb/event_figures.h"
#include "lb/listener.h"
#include "lb/memory_monitor.h"
#include "lb/options.h"
#include "lb/tls_certificates.h"
#include "lb/tunnel_pool.h"

namespace dlb::lb {

class AccessLog;
class OutlierMonitor;
class Worker;

// Passive health (L10): how data workers tell the control thread of connects. Thread-safe.
class PassiveHealth {
 public:
  // `err`: the errno of the connect.
  virtual void note_connect_failure(Backend& backend, int err) = 0;
  virtual void note_connect_success(Backend& backend) = 0;

 protected:
  ~PassiveHealth() = default;
};

// The balancer's own pages (/lb/...). Thread-safe; renders from what all workers publish.
class OwnPages {
 public:
  struct Page {
    int status = 404;
    std::string content_type;
    std::string body;
    std::string extra;  // whole header lines with CRLF
  };
  virtual Page render(std::string_view path, std::string_view query, std::string_view accept) = 0;
  // A snapshot for /lb/events: one JSON object on one line.
  virtual std::string render_event() = 0;

 protected:
  ~OwnPages() = default;
};

struct WorkerMail {
  enum class Kind : std::uint8_t {
    Grant,       // `backend`'s slot, still reserved, for your queue
    Retry,       // capacity may have appeared: try your queue's heads again
    BackendOut,  // `backend` takes no new requests: close your idle connections to it
    Shed,        // the memory guard is on: close what idles, give memory back
    Configure,   // another configuration is in force: Shared::configuration has it
    StartAccepting,
    BeginDrain,     // answer with Connection: close, the end is near
    StopAccepting,  // who waits in the backlog is still taken in
    CloseIdle,      // close client connections that idle between requests
    CutRequests,    // refuse what has no answer yet, close every other client connection that is no tunnel
    KeepTunnels,    // close tunnels until `keep` are left
    CutAll,         // close everything
    ReclaimClient,  // another worker needs room: close your oldest connection that may be
  };
  Kind kind = Kind::Retry;
  std::uint32_t backend = 0;
  std::uint32_t keep = 0;
};

struct Shared {
  Shared(ConfigurationStore& configuration_in, const MemoryState& memory_in, PassiveHealth& passive_in,
         OutlierMonitor& outliers_in, OwnPages& pages_in, EventFigures& events_in, Log& log_in)
      : configuration(configuration_in),
        memory(memory_in),
        passive(passive_in),
        outliers(outliers_in),
        pages(pages_in),
        events(events_in),
        log(log_in) {}

  ConfigurationStore& configuration;
  const MemoryState& memory;
  PassiveHealth& passive;
  OutlierMonitor& outliers;
  OwnPages& pages;
  EventFigures& events;
  Log& log;
  TlsCertificates* certificates = nullptr;  // null: no tls-listen
  AccessLog* access_log = nullptr;          // null: off

  std::vector<Worker*> workers;  // complete before the first thread starts; at most 64
  // Bit i: worker i has waiters. Set before the waiter's last look at the slots, so that no wake-up is lost.
  std::atomic<std::uint64_t> waiting_workers{0};
  std::atomic<std::uint32_t> grant_rotation{0};
  SlotCounter waiting;     // under backend-queue-max
  SlotCounter admissions;  // under admission-limit
  SlotCounter clients;     // under client_cap and client_burst
  // Connections that may be open at a time, and how many more while memory is clear of its limits
  // (descriptors.h may have lowered them).
  std::atomic<std::uint32_t> client_cap{0};
  std::atomic<std::uint32_t> client_burst{0};
  std::atomic<bool> draining{false};
  std::atomic<std::uint64_t> refused_at_end{0};  // requests without an answer when the drain was over
  std::vector<Listener> listeners;               // complete before the first thread starts
  std::atomic<std::size_t> workers_not_accepting{0};
};

}  // namespace dlb::lb
