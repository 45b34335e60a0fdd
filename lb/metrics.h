// WorkerMetrics: what one data worker counts. Each worker owns one and is its only writer; the status pages
// read all of them and add up. Counters are relaxed atomics stored by load + 1: a plain increment for the
// writer (no locked instruction), never a torn value for a reader.
//
// Per-backend figures are in BackendCounters (backend_set.h), picks in Router::counters(). How all of them
// are named, typed and explained in JSON, Prometheus and the README is declared once in metrics.cc.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/clock.h"
#include "common/histogram.h"
#include "lb/rate_window.h"
#include "lb/tunnel_pool.h"

namespace dlb::lb {

// A counter or gauge with one writing thread.
class WorkerCount {
 public:
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void sub(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) - n, std::memory_order_relaxed);
  }
  void set(std::uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// The same for a counter that several threads write (BackendCounters).
inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) {
  counter.fetch_add(n, std::memory_order_relaxed);
}

struct alignas(64) WorkerMetrics {
  static constexpr std::size_t kLatencySamples = 20'000;  // of all workers together
  static constexpr std::size_t kFeedSamples = 4'000;      // of all workers together

  // `workers` is how many share the sample windows.
  explicit WorkerMetrics(std::size_t workers = 1)
      : feed_selection_us(kFeedSamples / workers),
        feed_header_wait_us(kFeedSamples / workers),
        feed_body_us(kFeedSamples / workers),
        latency_us(kLatencySamples / workers) {}

  // --- Requests that were to be forwarded. Each ends in exactly one of success, failed, client_gone.
  WorkerCount requests_total;    // a complete head that passed the checks of method, path, size and admission
  WorkerCount requests_success;  // a complete response with a status under 500, a backend's or ours
  WorkerCount requests_failed;   // a 5xx of the backend or our own, or a response that broke off
  WorkerCount requests_client_gone;  // the client left first
  WorkerCount requests_local;        // answered by us: /lb/*
  WorkerCount requests_in_progress;  // gauge

  // --- Answers that we made ourselves, by status.
  WorkerCount answered_400, answered_404, answered_405, answered_408, answered_413, answered_414,
      answered_417, answered_431;
  WorkerCount answered_501, answered_502, answered_503, answered_504, answered_505;
  void count_answer(int status) {
    WorkerCount* const place = answer(status);
    if (place != nullptr) place->add();
  }

  // --- Trouble with backends, whether or not a retry mended it.
  WorkerCount backend_connect_errors;    // refused, unreachable
  WorkerCount backend_connect_timeouts;  // connect-timeout
  WorkerCount backend_timeouts;          // backend-timeout: no response head
  WorkerCount backend_resets;            // closed or reset before the response was complete
  WorkerCount backend_bad_responses;     // not HTTP, or a head over the limit
  WorkerCount retries;                   // second attempts made
  WorkerCount retries_refused;           // by the budget

  // --- The queue, admission and other refusals.
  WorkerCount queued;               // requests that had to wait
  WorkerCount queue_waiting;        // gauge
  WorkerCount queue_timeouts;       // 503 after backend-queue-timeout
  WorkerCount queue_full;           // 503: backend-queue-max were waiting already
  WorkerCount queue_left;           // the client left while it waited
  WorkerCount admission_in_flight;  // gauge: POST /message in progress
  WorkerCount admission_rejected;   // 503: admission-limit
  WorkerCount shed;                 // 503: the memory guard is on
  WorkerCount no_backend;           // 503: none healthy
  WorkerCount no_memory;            // 503: none that passes the memory guards

  // --- Client connections.
  WorkerCount client_accepted;
  WorkerCount client_refused;        // client-max-connections, nothing could be reclaimed
  WorkerCount client_reclaimed;      // closed while idle to make room
  WorkerCount client_accept_errors;  // EMFILE and its kin
  WorkerCount client_limit;          // gauge: how many may be open, of all workers together
  WorkerCount client_new;            // gauge: no byte yet
  WorkerCount client_handshaking;    // gauge: a TLS handshake runs
  WorkerCount client_reading;        // gauge: a head or body is on its way
  WorkerCount client_active;         // gauge: an exchange runs
  WorkerCount client_idle;           // gauge: between two requests
  WorkerCount client_tunnels;        // gauge: tunnels
  WorkerCount client_idle_timeouts, client_header_timeouts, client_body_timeouts, client_write_timeouts;
  WorkerCount client_too_slow;  // client-min-rate
  WorkerCount client_bytes_in, client_bytes_out;

  // --- Tunnels (their bytes are counted among the client's as well).
  std::array<WorkerCount, 3> tunnels_by_kind, tunnels_opened_by_kind;  // by TunnelKind; the first are gauges
  WorkerCount& tunnels_active(TunnelKind kind) { return tunnels_by_kind[static_cast<std::size_t>(kind)]; }
  WorkerCount& tunnels_opened(TunnelKind kind) {
    return tunnels_opened_by_kind[static_cast<std::size_t>(kind)];
  }
  WorkerCount tunnel_connect_failures;            // to one backend; the next was tried
  WorkerCount tunnels_without_backend;            // closed: none was usable, or every connect failed
  WorkerCount tunnels_over_limit;                 // closed: wss-max-connections
  WorkerCount tunnel_bytes_in, tunnel_bytes_out;  // from and to clients
  WorkerCount tunnel_timeouts;                    // tunnel-timeout, or half-closed without progress

  // --- TLS handshakes. Each that began ends in exactly one of the two versions or the first four failures.
  WorkerCount tls_handshakes_12, tls_handshakes_13;
  WorkerCount tls_resumed;          // part of the above
  WorkerCount tls_failed_protocol;  // not TLS as we speak it, or refused by the client
  WorkerCount tls_failed_left;      // the client closed or reset
  WorkerCount tls_failed_timeout;   // client-header-timeout
  WorkerCount tls_failed_memory;
  WorkerCount tls_plain_http;  // no handshake: plain HTTP on the TLS port, answered 400

  // --- accept-proxy-protocol
  WorkerCount proxy_headers, proxy_headers_local;  // taken; the latter name nobody
  WorkerCount proxy_headers_bad;                   // closed: no header, or not whole in time
  WorkerCount proxy_untrusted;                     // closed: the peer is not in trusted-proxies

  // --- Upstream connections, both transports together; the feed's share apart.
  WorkerCount upstream_opened, upstream_reused;
  WorkerCount upstream_connecting, upstream_busy, upstream_idle;  // gauges
  WorkerCount upstream_feed_busy, upstream_feed_idle;             // gauges, part of the above
  WorkerCount upstream_evicted;  // closed to keep proxy-max-idle or proxy-max-idle-per-host
  WorkerCount upstream_idle_timeouts;
  WorkerCount upstream_closed_by_peer;  // found dead while pooled

  // --- Feeds (paths in feed-paths), counted in the requests above as well.
  WorkerCount feed_requests, feed_success;
  WorkerCount feed_header_failures;     // no complete response head, whatever the reason
  WorkerCount feed_interrupted_bodies;  // head delivered, body broken off (backend or client)
  SampleWindow feed_selection_us;       // from request head to a backend picked, queue included
  SampleWindow feed_header_wait_us;     // from pick to response head
  SampleWindow feed_body_us;            // from response head to last byte written to the client

  // --- All requests in success and failed: from a complete request head to the last byte of the response.
  SampleWindow latency_us;
  RateWindow throughput;
  void finished(TimePoint now, Duration took) {
    record(latency_us, took);
    throughput.add(now);
  }

  // Any duration window above.
  static void record(SampleWindow& window, Duration took) {
    window.record(static_cast<double>(took.count()) / 1000);
  }

  // --- The loop, copied once a turn or less often.
  WorkerCount loop_turns, loop_events, loop_stale_events, loop_turns_over_5ms, loop_turn_ns_max;

 private:
  WorkerCount* answer(int status) {
    switch (status) {
      case 400:
        return &answered_400;
      case 404:
        return &answered_404;
      case 405:
        return &answered_405;
      case 408:
        return &answered_408;
      case 413:
        return &answered_413;
      case 414:
        return &answered_414;
      case 417:
        return &answered_417;
      case 431:
        return &answered_431;
      case 501:
        return &answered_501;
      case 502:
        return &answered_502;
      case 503:
        return &answered_503;
      case 504:
        return &answered_504;
      case 505:
        return &answered_505;
      default:
        return nullptr;
    }
  }
};

}  // namespace dlb::lb
