#include "backend/sqlite_store.h"

#include <algorithm>
#include <utility>

#include "backend/generation.h"

namespace dlb::backend {
namespace {

constexpr std::size_t kMostResults = 256;  // jobs are few: the pipeline's batches, one read, one probe, one
                                           // reserve, and the chat's, each bounded
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::seconds(1);
constexpr Duration kProbeInterval = std::chrono::milliseconds(500);
constexpr std::uint64_t kWriterJob = std::uint64_t{1} << 63;  // in the ids of jobs that the writer does

}  // namespace

SqliteStore::SqliteStore(EventLoop& loop, Log& log, const StoreConfig& config, const KeyRing& ring)
    : StoreBase(loop, log, config, ring),
      results_(loop, *this, kMostResults),
      signal_(loop, config.data_dir, [this] { feeds_.hint(); }),
      writer_retry_(timers_, *this),
      reader_retry_(timers_, *this),
      probe_timer_(timers_, *this) {}

SqliteStore::~SqliteStore() = default;  // the workers are the last members: joined first

void SqliteStore::start(MessageStoreClient& client) {
  answers_.set_client(client);
  const auto busy_limit = config_.statement_timeout;
  writer_ = std::make_unique<SqliteWorker>(config_.data_dir, busy_limit, results_);
  reader_ = std::make_unique<SqliteWorker>(config_.data_dir, busy_limit, results_);
  writer_->post({.kind = SqliteJob::Kind::Open, .id = kWriterJob});
}

bool SqliteStore::healthy() const {
  if (writer_link_ != Link::Up || reader_link_ != Link::Up) return false;
  return !probing_ || loop_.now() - probe_sent_ <= config_.db_health_timeout;
}

void SqliteStore::send_batch(std::uint64_t batch_id, const WriteBatch& batch) {
  SqliteJob job{.kind = SqliteJob::Kind::Write, .id = batch_id | kWriterJob};
  job.rows.reserve(batch.size());
  for (const auto& row : batch) job.rows.push_back(row.get());
  writer_->post(std::move(job));
}

void SqliteStore::send_reserve(const KeyId& key) {
  SqliteJob job{.kind = SqliteJob::Kind::Reserve, .id = kWriterJob};
  job.key_id = as_bytes(key);
  job.count = KeyBudget::kBlock;
  job.limit = KeyBudget::kLimit;
  writer_->post(std::move(job));
}

void SqliteStore::announce(std::int64_t, std::int64_t) {
  feeds_.hint();
  if (config_.cluster_events) signal_.send();
}

void SqliteStore::send_read(const RowsRequest& request) {
  SqliteJob job{.kind = SqliteJob::Kind::Read};
  job.from = request.from;
  job.max_rows = request.max_rows;
  job.max_bytes = request.max_bytes;
  reader_->post(std::move(job));
}

void SqliteStore::send_renew_generation(std::string_view seen) {
  SqliteJob job{.kind = SqliteJob::Kind::Generation};
  job.seen = seen;
  job.text = new_generation();
  reader_->post(std::move(job));
}

void SqliteStore::on_mail(std::unique_ptr<SqliteResult> result) {
  const bool from_writer = (result->id & kWriterJob) != 0;
  result->id &= ~kWriterJob;
  if (result->kind == SqliteJob::Kind::Open) {
    if (from_writer) {
      on_opened(*result, writer_link_, writer_retry_, writer_pause_);
      // The reader opens what the writer has made.
      if (result->ok && reader_link_ != Link::Up) reader_->post({.kind = SqliteJob::Kind::Open});
      writes_.on_driver_change();
      on_chat_change();
    } else {
      on_opened(*result, reader_link_, reader_retry_, reader_pause_);
      if (result->ok) {
        if (auto opened = signal_.open(); !opened) {
          log_.warn("new rows of other processes are found by polling only", {{"why", opened.error().text}});
        }
        if (!probe_timer_.armed()) probe_timer_.arm_at(loop_.now() + kProbeInterval);
        feeds_.on_reader_up(result->text);
      } else {
        feeds_.on_driver_change();
      }
      on_chat_change();
    }
    return;
  }
  Link& link = from_writer ? writer_link_ : reader_link_;
  if (result->closed && link == Link::Up) {
    log_.error("database file was closed after a fault and is opened again", {{"why", result->detail}});
    link = Link::Opening;
    (from_writer ? writer_ : reader_)
        ->post({.kind = SqliteJob::Kind::Open, .id = from_writer ? kWriterJob : 0});
  }
  if (on_chat_result(*result)) return;
  if (from_writer) {
    on_writer_result(*result);
  } else {
    on_reader_result(*result);
  }
}

void SqliteStore::on_opened(SqliteResult& result, Link& link, HeapTimer& retry, Duration& pause) {
  if (result.ok) {
    if (link == Link::Away) log_.info("database file is open", {{"data-dir", config_.data_dir}});
    link = Link::Up;
    pause = Duration::zero();
    return;
  }
  pause = std::clamp(pause * 2, kFirstPause, kLongestPause);
  // Others that open the file at the same moment may hold it shortly; that is not being away yet.
  if (pause > kFirstPause * 8) link = Link::Away;
  if (link == Link::Away) log_.error("cannot open the database file", {{"why", result.detail}});
  retry.arm_at(loop_.now() + pause);
}

void SqliteStore::on_writer_result(SqliteResult& result) {
  if (result.kind == SqliteJob::Kind::Write) {
    if (result.ok) {
      writes_.on_batch_replies(result.id, result.replies);
    } else {
      writes_.on_batch_failed(result.id, result.failure, result.detail);
    }
  } else if (result.kind == SqliteJob::Kind::Reserve) {
    if (result.ok) {
      writes_.on_reserved(result.number);
    } else {
      log_.warn("no encryptions reserved", {{"why", result.detail}});
      writes_.on_reserve_failed();
    }
  }
}

void SqliteStore::on_reader_result(SqliteResult& result) {
  if (result.kind == SqliteJob::Kind::Probe) {
    probing_ = false;
    if (result.ok && std::exchange(data_version_, result.number) != result.number) feeds_.hint();
    probe_timer_.arm_at(loop_.now() + kProbeInterval);
    return;
  }
  if (!result.ok) {
    log_.warn("read failed", {{"why", result.detail}});
    feeds_.on_read_failed();
  } else if (result.kind == SqliteJob::Kind::Read) {
    feeds_.on_rows(result.text, result.rows, result.complete);
  } else if (result.kind == SqliteJob::Kind::Generation) {
    feeds_.on_generation(result.text);
  }
}

// --- the chat ---

void SqliteStore::send_page(const PageRequest& request) {
  SqliteJob job{.kind = SqliteJob::Kind::Page};
  job.down = request.down;
  job.from = request.from;
  job.max_rows = request.max_rows;
  job.max_bytes = request.max_bytes;
  reader_->post(std::move(job));
}

void SqliteStore::send_find_key(std::uint64_t id, std::string_view name) {
  reader_->post({.kind = SqliteJob::Kind::FindKey, .id = id, .text = std::string(name)});
}

void SqliteStore::send_list_present(std::string_view instance) {
  reader_->post({.kind = SqliteJob::Kind::ListPresent, .seen = std::string(instance)});
}

void SqliteStore::send_claim(std::uint64_t id, std::string_view name, std::string_view public_key) {
  writer_->post({.kind = SqliteJob::Kind::Claim,
                 .id = id | kWriterJob,
                 .seen = std::string(public_key),
                 .text = std::string(name)});
}

void SqliteStore::send_present(std::string_view instance, std::string_view names,
                               std::int64_t lease_seconds) {
  writer_->post({.kind = SqliteJob::Kind::WritePresent,
                 .id = kWriterJob,
                 .count = lease_seconds,
                 .seen = std::string(instance),
                 .text = std::string(names)});
}

// False: not one of the chat's.
bool SqliteStore::on_chat_result(SqliteResult& result) {
  using Kind = SqliteJob::Kind;
  const bool mine = result.kind == Kind::Page || result.kind == Kind::FindKey || result.kind == Kind::Claim ||
                    result.kind == Kind::ListPresent || result.kind == Kind::WritePresent;
  if (!mine) return false;
  if (!result.ok) log_.warn("chat query failed", {{"why", result.detail}});
  switch (result.kind) {
    case Kind::Page:
      result.ok ? rows_.on_page(result.rows, result.complete) : rows_.on_page_failed();
      break;
    case Kind::ListPresent: {
      const std::vector<std::string_view> lists(result.texts.begin(), result.texts.end());
      result.ok ? presence_.on_listed(lists) : presence_.on_list_failed();
      break;
    }
    case Kind::WritePresent:
      result.ok ? presence_.on_written() : presence_.on_write_failed();
      break;
    default:
      result.ok ? names_.on_key(result.id, result.text) : names_.on_failed(result.id);
  }
  return true;
}

void SqliteStore::on_chat_change() {
  rows_.on_driver_change();
  names_.on_driver_change();
  presence_.on_driver_change();
}

void SqliteStore::on_heap_timer(HeapTimer& timer) {
  if (&timer == &writer_retry_) {
    writer_->post({.kind = SqliteJob::Kind::Open, .id = kWriterJob});
  } else if (&timer == &reader_retry_) {
    reader_->post({.kind = SqliteJob::Kind::Open});
  } else if (!probing_) {
    probing_ = true;
    probe_sent_ = loop_.now();
    reader_->post({.kind = SqliteJob::Kind::Probe});
  }
}

}  // namespace dlb::backend
