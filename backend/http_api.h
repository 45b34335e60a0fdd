// HttpApi: the routes of the backend. It reads a request by the rules of message_input.h, asks the store, and
// turns the store's answer into statuses and JSON; connections, framing and limits are HttpServer's business,
// durability is the store's. A request in progress is one HttpToken: the same value names it at the store, so
// that neither side ever holds a pointer to the other.
//
//   on_request ──▶ route ──▶ answered at once
//                    └────▶ pending_ ──put/feed──▶ on_put / on_feed ──▶ respond
//                              └── on_abandoned ──▶ store.cancel          (the client left)
//
// Loop thread only. Memory is bounded by the server's connections: one pending entry each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "backend/chat_store.h"
#include "backend/gzip_feeds.h"
#include "backend/id_maker.h"
#include "backend/internal_stats.h"
#include "backend/message_input.h"
#include "backend/message_store.h"
#include "common/event_loop.h"
#include "common/histogram.h"
#include "common/http_server.h"
#include "common/ws_server.h"

namespace dlb::backend {

class ChatRoom;

// Who wants to know of health checks: the drain, which waits until probers have been told.
class ProbeObserver {
 public:
  // `prober` tells askers apart: a hash of address and user agent.
  virtual void on_probe(std::uint64_t prober) = 0;

 protected:
  ~ProbeObserver() = default;
};

struct HttpApiConfig {
  std::string backend_id;
  std::string version;
  std::string store_kind;  // "postgres" or "sqlite"
  std::uint64_t max_body_bytes = 1 << 20;
  bool ws_plain = false;       // WebSocket paths also without TLS
  bool reserve_names = false;  // a name that is registered on WSS may not be posted under
  std::string public_wss_url;
  std::size_t feed_gzip_bytes = std::size_t{64} << 20;  // what is kept of compressed feeds
};

// Counts since start, by what was asked and by how it was answered. Refusals by the server itself are not
// here.
struct HttpApiCounters {
  std::uint64_t message_requests = 0;
  std::uint64_t feed_requests = 0;
  std::uint64_t probe_requests = 0;  // /health and /healthz
  std::uint64_t other_requests = 0;
  std::uint64_t responses_2xx = 0;
  std::uint64_t responses_3xx = 0;
  std::uint64_t responses_4xx = 0;
  std::uint64_t responses_5xx = 0;
  std::uint64_t abandoned = 0;  // the client left while its message or feed was waited for
  Histogram message_us;         // head complete to answer handed over; answers by the store only
  Histogram feed_us;
};

class HttpApi final : public HttpService, public MessageStoreClient, private GzipFeedsClient {
 public:
  HttpApi(EventLoop& loop, HttpApiConfig config);
  HttpApi(const HttpApi&) = delete;
  HttpApi& operator=(const HttpApi&) = delete;

  // Before the first request; all must outlive the last one.
  void bind(HttpServer& server, MessageStore& store, ResourceSampler& resources, ProbeObserver& probes);

  // Likewise: WebSocket paths, and the TLS port (its token_tag is 1), null when there is none.
  void serve_websockets(WsServer& sockets, HttpServer* tls_port);
  // For its figures.
  void serve_chat(const ChatRoom& chat) { chat_ = &chat; }

  // Lines for HttpServerOptions::fixed_header_lines: X-Backend and what CORS wants on every answer.
  static std::string fixed_header_lines(std::string_view backend_id);

  void on_request(HttpToken token, const HttpRequest& request) override;
  void on_abandoned(HttpToken token) override;

  void on_put(std::uint64_t token, const PutOutcome& outcome) override;
  void on_feed(std::uint64_t token, const FeedAnswer& answer) override;
  void on_name(std::uint64_t token, const OwnerAnswer& answer) override;

  const HttpApiCounters& counters() const { return counters_; }
  // Messages and feeds that wait for the store.
  std::uint64_t waiting() const { return pending_.size(); }

 private:
  struct Pending {
    bool is_feed = false;
    TimePoint received{};
    std::string text;   // of a message: its JSON up to the timestamp; of a feed: If-None-Match, then its ETag
    bool gzip = false;  // of a feed: taken by the client
    bool paged = false;                // of a feed
    std::optional<NewMessage> held{};  // of a message: until it is known that its name is free
  };
  using Handler = void (HttpApi::*)(HttpToken, const HttpRequest&);
  struct Route {
    std::string_view path;
    std::string_view allow;
    bool post = false;  // GET and POST, no HEAD: the route writes
    Handler handler = nullptr;
  };
  static const Route kRoutes[];

  void handle_message(HttpToken token, const HttpRequest& request);
  void handle_feed(HttpToken token, const HttpRequest& request);
  void handle_health(HttpToken token, const HttpRequest& request);
  void handle_healthz(HttpToken token, const HttpRequest& request);
  void respond_probe(HttpToken token, bool ok, std::string body);
  void handle_internal_stats(HttpToken token, const HttpRequest& request);
  void handle_info(HttpToken token, const HttpRequest& request);
  void handle_metrics(HttpToken token, const HttpRequest& request);
  void handle_page(HttpToken token, const HttpRequest& request);
  void handle_options(HttpToken token, const Route* route);

  void respond_feed(HttpToken token, std::string_view etag, bool gzip, HttpBody body);
  void on_gzip(std::uint64_t token, HttpBody body) override;

  MessageOrError read_message(const HttpRequest& request);
  SocketFigures socket_figures() const;
  std::string metrics_text(bool as_json) const;
  std::uint64_t in_flight_besides_this() const;
  HttpServer& server_of(HttpToken token) const;

  void respond(HttpToken token, int status, std::string_view content_type,
               std::span<const HeaderLine> headers, HttpBody body);
  void respond_error(HttpToken token, int status, std::string_view code, std::string_view detail,
                     std::span<const HeaderLine> headers = {});
  void count_response(int status);

  EventLoop& loop_;
  HttpApiConfig config_;
  HttpServer* server_ = nullptr;
  HttpServer* tls_port_ = nullptr;
  WsServer* sockets_ = nullptr;
  const ChatRoom* chat_ = nullptr;
  MessageStore* store_ = nullptr;
  ResourceSampler* resources_ = nullptr;
  ProbeObserver* probes_ = nullptr;
  MessageInput input_;
  IdMaker ids_;
  std::unordered_map<HttpToken, Pending> pending_;
  HttpApiCounters counters_;
  GzipFeeds gzip_;
  TimePoint started_{};
};

}  // namespace dlb::backend
