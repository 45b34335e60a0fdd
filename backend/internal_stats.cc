#include "backend/internal_stats.h"

#include "common/json_writer.h"
#include "common/process_stats.h"

namespace dlb::backend {
namespace {

// Unknown values are null, never a number that could be taken for one.
void bytes_field(JsonWriter& json, std::string_view name, std::int64_t value) {
  json.key(name);
  if (value < 0) {
    json.null();
  } else {
    json.value(value);
  }
}

void percent_field(JsonWriter& json, std::string_view name, double value) {
  json.key(name);
  if (value < 0) {
    json.null();
  } else {
    json.value(value, 2);
  }
}

void seconds_field(JsonWriter& json, std::string_view name, double value) { json.field(name, value, 6); }

double mean(double sum, std::uint64_t count) { return count == 0 ? 0 : sum / static_cast<double>(count); }

void memory_object(JsonWriter& json, const ResourceSample& resources) {
  const CgroupMemory& memory = resources.memory;
  json.key("memory").begin_object();
  bytes_field(json, "total_bytes", memory.total);
  bytes_field(json, "working_set_bytes", memory.working_set);
  bytes_field(json, "unreclaimable_bytes", memory.unreclaimable);
  bytes_field(json, "limit_bytes", memory.limit);
  percent_field(json, "total_percent", memory.total_percent);
  percent_field(json, "working_set_percent", memory.working_set_percent);
  percent_field(json, "unreclaimable_percent", memory.unreclaimable_percent);
  bytes_field(json, "inactive_file_bytes", memory.inactive_file);
  bytes_field(json, "sock_bytes", resources.sock_bytes);
  bytes_field(json, "rss_bytes", resources.rss_bytes);
  json.end_object();
}

void write_queue_object(JsonWriter& json, const MessageStoreStats& store) {
  json.key("write_queue").begin_object();
  json.field("queued", store.queued_rows)
      .field("queued_bytes", store.queued_bytes)
      .field("batches_in_flight", store.batches_in_flight)
      .field("batches", store.batches)
      .field("rows", store.batch_rows)
      .field("retries", store.batch_retries)
      .field("full", store.queue_full)
      .field("timeouts", store.queue_timeouts);
  seconds_field(json, "batch_seconds_mean", mean(store.batch_seconds_sum, store.batches));
  seconds_field(json, "batch_seconds_max", store.batch_seconds_max);
  seconds_field(json, "wait_seconds_mean", mean(store.queue_wait_seconds_sum, store.batch_rows));
  json.end_object();
}

}  // namespace

ResourceSampler::ResourceSampler(EventLoop& loop, Cgroup& cgroup)
    : loop_(loop),
      cgroup_(cgroup),
      interval_(loop, kInterval),
      timer_(*this),
      before_(cgroup.read_cpu(loop.now())) {
  take();
  interval_.arm(timer_);
}

void ResourceSampler::on_timer(Timer&) {
  take();
  interval_.arm(timer_);
}

void ResourceSampler::take() {
  const CgroupCpu now = cgroup_.read_cpu(loop_.now());
  if (now.at > before_.at) {
    sample_.cpu_percent = cgroup_.cpu_percent(before_, now);
    before_ = now;
  }
  sample_.memory = cgroup_.read_memory(loop_.now());
  sample_.sock_bytes = sample_.memory.sock >= 0 ? sample_.memory.sock : read_tcp_memory_bytes();
  sample_.rss_bytes = read_rss_bytes();
}

std::string internal_stats_json(std::string_view backend_id, const ResourceSample& resources,
                                const RequestFigures& requests, const MessageStoreStats& store,
                                const SocketFigures& sockets) {
  std::string out;
  out.reserve(1536);
  JsonWriter json(out);
  json.begin_object();
  json.field("backend-id", backend_id);
  percent_field(json, "cpu_percent", resources.cpu_percent);
  memory_object(json, resources);
  json.key("requests")
      .begin_object()
      .field("in_flight", requests.in_flight)
      .field("total", requests.total)
      .end_object();
  write_queue_object(json, store);
  json.key("encryption").begin_object();
  json.field("encrypts", store.encrypts)
      .field("decrypts", store.decrypts)
      .field("undecryptable", store.undecryptable);
  seconds_field(json, "encrypt_seconds_mean", mean(store.encrypt_seconds_sum, store.encrypts));
  seconds_field(json, "decrypt_seconds_mean", mean(store.decrypt_seconds_sum, store.decrypts));
  json.end_object();
  json.key("feed_cache").begin_object();
  json.field("requests", store.feed_requests)
      .field("refreshes", store.feed_refreshes)
      .field("own_rows", store.feed_own_rows)
      .field("rows", store.feed_rows)
      .field("bytes", store.feed_bytes)
      .field("chunks", store.feed_chunks);
  seconds_field(json, "refresh_seconds_mean", mean(store.feed_refresh_seconds_sum, store.feed_refreshes));
  json.end_object();
  json.key("ws")
      .begin_object()
      .field("sessions", sockets.sessions)
      .field("opened", sockets.opened)
      .field("slow_consumers", sockets.slow_consumers)
      .field("messages_received", sockets.messages_received)
      .field("messages_sent", sockets.messages_sent)
      .field("names_online", sockets.names_online)
      .field("broadcasts", sockets.broadcasts)
      .field("verifications", sockets.verifications);
  seconds_field(json, "verify_seconds_mean", mean(sockets.verify_seconds_sum, sockets.verifications));
  json.end_object();
  json.end_object();
  return out;
}

}  // namespace dlb::backend
