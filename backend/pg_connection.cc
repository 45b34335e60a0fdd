#include "backend/pg_connection.h"

#include <libpq-fe.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include "common/check.h"

namespace dlb::backend {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(20);  // a restarted session is back at once
constexpr Duration kLongestPause = std::chrono::seconds(1);
constexpr int kReadsPerTurn = 16;

std::string one_line(const char* text) {
  std::string line = text != nullptr ? text : "";
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

const std::string* find(const PgOptions& options, std::string_view keyword) {
  for (const auto& [name, value] : options) {
    if (name == keyword) return &value;
  }
  return nullptr;
}

void ignore_notice(void*, const PGresult*) {}

}  // namespace

bool PgReply::ok() const {
  if (result_ == nullptr) return false;
  const ExecStatusType status = PQresultStatus(result_);
  return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

std::string_view PgReply::sqlstate() const {
  const char* state = result_ != nullptr ? PQresultErrorField(result_, PG_DIAG_SQLSTATE) : nullptr;
  return state != nullptr ? state : "";
}

// The primary message only: details may quote a row's values.
std::string PgReply::text() const {
  const char* primary = result_ != nullptr ? PQresultErrorField(result_, PG_DIAG_MESSAGE_PRIMARY) : nullptr;
  return one_line(primary != nullptr ? primary : "no reply") + " (" + std::string(sqlstate()) + ")";
}

int PgReply::rows() const { return result_ != nullptr ? PQntuples(result_) : 0; }

std::string_view PgReply::value(int row, int column) const {
  return {PQgetvalue(result_, row, column), static_cast<std::size_t>(PQgetlength(result_, row, column))};
}

struct PgConnection::Lookup {
  std::mutex mutex;
  Mailbox<std::vector<PgTarget>>* results = nullptr;  // null: nobody waits any more
};

PgConnection::PgConnection(EventLoop& loop, TimerHeap& timers, Log& log, std::uint64_t seed,
                           PgConnectionConfig config, PgConnectionClient& client)
    : loop_(loop),
      log_(log),
      rng_(seed),
      config_(std::move(config)),
      client_(client),
      timer_(timers, *this),
      reply_timer_(timers, *this) {}

PgConnection::~PgConnection() {
  if (lookup_ != nullptr) {
    const std::lock_guard lock(lookup_->mutex);
    lookup_->results = nullptr;
  }
  close();
}

void PgConnection::start() {
  DLB_CHECK(state_ == State::Idle);
  begin_attempt();
}

int PgConnection::server_pid() const { return connection_ != nullptr ? PQbackendPID(connection_) : 0; }

void PgConnection::wait_and_retry(Duration pause) {
  state_ = State::Waiting;
  timer_.arm_at(loop_.now() + pause);
}

void PgConnection::begin_attempt() {
  next_target_ = 0;
  if (std::none_of(config_.url.hosts.begin(), config_.url.hosts.end(), needs_lookup)) {
    targets_ = config_.url.hosts;
    connect_next();
    return;
  }
  state_ = State::Resolving;
  timer_.arm_at(loop_.now() + config_.connect_timeout);
  if (lookup_ == nullptr) start_lookup();
}

void PgConnection::start_lookup() {
  if (lookup_results_ == nullptr) {
    MailboxHandler<std::vector<PgTarget>>& receiver = *this;
    lookup_results_ = std::make_unique<Mailbox<std::vector<PgTarget>>>(loop_, receiver, 4);
  }
  lookup_ = std::make_shared<Lookup>();
  lookup_->results = lookup_results_.get();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread takes no signals: they are the loop's
  std::thread([lookup = lookup_, hosts = config_.url.hosts] {
    std::string failures;
    std::vector<PgTarget> targets = resolve(hosts, failures);
    const std::lock_guard lock(lookup->mutex);
    if (lookup->results != nullptr) DLB_CHECK(lookup->results->post(std::move(targets)));
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void PgConnection::on_mail(std::vector<PgTarget> targets) {
  lookup_.reset();
  if (!targets.empty()) targets_ = std::move(targets);  // else the last known addresses
  if (state_ != State::Resolving) return;
  connect_next();
}

void PgConnection::connect_next() {
  if (next_target_ >= targets_.size()) return attempt_failed("no host of database-url has a known address");
  const PgTarget& target = targets_[next_target_++];
  state_ = State::Connecting;

  PgOptions options = config_.url.options;
  const auto set = [&options](std::string_view name, std::string_view value) {
    std::erase_if(options, [name](const auto& option) { return option.first == name; });
    options.emplace_back(name, value);
  };
  const auto set_default = [&](std::string_view name, std::string_view value) {
    if (find(options, name) == nullptr) options.emplace_back(name, value);
  };
  std::string settings;
  if (const std::string* given = find(options, "options")) settings = *given;
  for (const auto& [name, value] : config_.settings) settings += " -c " + name + "=" + value;
  set("options", settings);
  set("client_encoding", "UTF8");
  set_default("application_name", config_.application_name);
  set_default("gssencmode", "disable");  // its negotiation may block on name and ticket look-ups
  set_default("keepalives_idle", "10");
  set_default("keepalives_interval", "5");
  set_default("keepalives_count", "3");
  set_default("tcp_user_timeout", "5000");
  if (config_.url.hosts.size() > 1) set_default("target_session_attrs", "read-write");
  if (!target.host.empty()) set("host", target.host);
  if (!target.hostaddr.empty()) set("hostaddr", target.hostaddr);
  if (!target.port.empty()) set("port", target.port);

  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [name, value] : options) {
    keywords.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  connection_ = PQconnectStartParams(keywords.data(), values.data(), 0);
  if (connection_ == nullptr || PQstatus(connection_) == CONNECTION_BAD) return attempt_failed(error_text());
  PQsetNoticeReceiver(connection_, ignore_notice, nullptr);
  timer_.arm_at(loop_.now() + config_.connect_timeout);
  wants_write_ = true;  // PQconnectPoll's own rule: behave as if it had answered PGRES_POLLING_WRITING
  register_socket();
}

// libpq may change its socket between two polls, even to one with the same number, so it is registered anew
// each time; that also brings the edge for what is ready already.
void PgConnection::register_socket() {
  if (fd_ >= 0) loop_.remove(source_, fd_, false);
  fd_ = PQsocket(connection_);
  auto added = loop_.add(fd_, *this);
  if (!added) {
    fd_ = -1;
    return attempt_failed(added.error().text);
  }
  source_ = *added;
}

void PgConnection::poll_connect() {
  switch (PQconnectPoll(connection_)) {
    case PGRES_POLLING_READING:
      wants_write_ = false;
      return register_socket();
    case PGRES_POLLING_WRITING:
      wants_write_ = true;
      return register_socket();
    case PGRES_POLLING_OK:
      return begin_setup();
    default:
      return attempt_failed(error_text());
  }
}

void PgConnection::begin_setup() {
  state_ = State::SettingUp;
  setup_step_ = 0;
  if (PQsetnonblocking(connection_, 1) != 0) return attempt_failed(error_text());
  timer_.arm_at(loop_.now() + config_.reply_timeout);
  register_socket();
  if (state_ == State::SettingUp) continue_setup();
}

void PgConnection::continue_setup() {
  if (setup_step_ < config_.setup.size()) {
    if (PQsendQuery(connection_, config_.setup[setup_step_].c_str()) != 1)
      return attempt_failed(error_text());
    PQflush(connection_);
    return;
  }
  send_prepares();
}

void PgConnection::send_prepares() {
  bool ok = PQenterPipelineMode(connection_) == 1;
  for (const PgStatement& statement : config_.statements) {
    std::vector<Oid> types;
    for (const PgType type : statement.types) types.push_back(static_cast<Oid>(type));
    ok = ok && PQsendPrepare(connection_, statement.name, statement.sql.c_str(),
                             static_cast<int>(types.size()), types.data()) == 1;
  }
  if (!ok || PQpipelineSync(connection_) != 1) return attempt_failed(error_text());
  expected_.push_back({});
  PQflush(connection_);
}

// Before pipeline mode: the results of one setup step after the other.
void PgConnection::read_setup_results() {
  while (state_ == State::SettingUp && setup_step_ < config_.setup.size() && PQisBusy(connection_) == 0) {
    pg_result* result = PQgetResult(connection_);
    if (result == nullptr) {
      ++setup_step_;
      continue_setup();
      continue;
    }
    const PgReply reply(result);
    const std::string why = reply.ok() ? "" : reply.text();
    PQclear(result);
    if (!why.empty()) return attempt_failed("set-up: " + why);
  }
}

void PgConnection::become_ready() {
  state_ = State::Ready;
  timer_.cancel();
  pause_ = Duration::zero();
  ++times_ready_;
  if (failed_rounds_ > 0) log_.info("database connection is up", {log_key("purpose", config_.purpose)});
  failed_rounds_ = 0;
  client_.on_pg_ready(*this);
}

void PgConnection::attempt_failed(std::string_view why) {
  const std::string reason(why);
  close();
  if (next_target_ < targets_.size()) {
    log_.warn("database host not usable, trying the next",
              {log_key("purpose", config_.purpose), {"why", reason}});
    return connect_next();
  }
  ++failed_rounds_;
  pause_ = std::clamp(pause_ * 2, kFirstPause * 2, kLongestPause);
  log_.warn("database cannot be reached", {log_key("purpose", config_.purpose), {"why", reason}});
  // A quarter up or down, so that the backends do not come back in one crowd.
  wait_and_retry(pause_ * static_cast<int>(rng_.between(75, 125)) / 100);
  client_.on_pg_connect_failed(*this);
}

void PgConnection::send(std::uint64_t tag, const char* statement, std::initializer_list<PgValue> values) {
  DLB_CHECK(state_ == State::Ready);
  std::array<const char*, 16> bytes{};
  std::array<int, 16> lengths{};
  std::array<int, 16> formats{};
  DLB_CHECK(values.size() <= bytes.size());
  std::size_t count = 0;
  for (const PgValue& value : values) {
    bytes[count] = value.bytes.data() != nullptr ? value.bytes.data() : "";
    lengths[count] = static_cast<int>(value.bytes.size());
    formats[count] = 1;
    ++count;
  }
  if (expected_.empty()) reply_timer_.arm_at(loop_.now() + config_.reply_timeout);
  expected_.push_back({tag, nullptr});
  const bool sent = lost_why_.empty() &&
                    PQsendQueryPrepared(connection_, statement, static_cast<int>(count), bytes.data(),
                                        lengths.data(), formats.data(), 1) == 1 &&
                    PQpipelineSync(connection_) == 1;
  if (!sent) return reconnect_soon(error_text());
  flush();
}

void PgConnection::on_events(std::uint32_t events) {
  if (!lost_why_.empty()) return lose(std::exchange(lost_why_, {}));
  switch (state_) {
    case State::Connecting: {
      const std::uint32_t wanted = wants_write_ ? EPOLLOUT : EPOLLIN;
      if ((events & (wanted | EPOLLERR | EPOLLHUP)) != 0) poll_connect();
      return;
    }
    case State::SettingUp:
    case State::Ready:
      return pump();
    default:
      return;
  }
}

bool PgConnection::socket_readable() const {
  if (auto* tls = static_cast<SSL*>(PQsslStruct(connection_, "OpenSSL"));
      tls != nullptr && SSL_pending(tls) > 0) {
    return true;
  }
  pollfd one{fd_, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

void PgConnection::pump() {
  const std::uint64_t era = era_;  // another connection may have taken this one's place after each call out
  for (int reads = 0; reads < kReadsPerTurn; ++reads) {
    const int rest = PQflush(connection_);  // a failed write shows when reading: the answer may be there
    congested_ = rest > 0;
    was_congested_ = was_congested_ || congested_;
    const bool alive = PQconsumeInput(connection_) == 1;
    read_setup_results();
    if (era == era_) read_results();
    if (era == era_) read_notifications();
    if (era == era_ && !congested_ && std::exchange(was_congested_, false)) client_.on_pg_drained(*this);
    if (era != era_) break;
    if ((!alive || PQstatus(connection_) == CONNECTION_BAD) && lost_why_.empty()) lost_why_ = error_text();
    if (!lost_why_.empty()) return lose(std::exchange(lost_why_, {}));
    if (!socket_readable()) return flush();
  }
  // Over this turn's budget: no edge will come for what is there.
  if (era == era_) loop_.make_runnable(source_);
}

// Sends what there is. When the socket is full libpq reads, to keep the server from blocking: what it has got
// then brings no edge any more.
void PgConnection::flush() {
  const int rest = PQflush(connection_);
  congested_ = rest > 0;
  was_congested_ = was_congested_ || congested_;
  const bool something_to_do = congested_ ? PQisBusy(connection_) == 0 : was_congested_;
  if (rest < 0 || something_to_do) loop_.make_runnable(source_);
}

void PgConnection::read_notifications() {
  const std::uint64_t era = era_;
  while (era == era_) {
    PGnotify* notification = PQnotifies(connection_);
    if (notification == nullptr) return;
    const int sender = notification->be_pid;
    PQfreemem(notification);
    client_.on_pg_notification(*this, sender);
  }
}

void PgConnection::read_results() {
  const std::uint64_t era = era_;
  int nulls = 0;  // one ends each statement's results; more in a row: nothing is there
  while (era == era_ && lost_why_.empty() && !expected_.empty() && nulls < 3 &&
         PQpipelineStatus(connection_) != PQ_PIPELINE_OFF && PQisBusy(connection_) == 0) {
    pg_result* result = PQgetResult(connection_);
    nulls = result == nullptr ? nulls + 1 : 0;
    if (result != nullptr) handle(result);
  }
}

void PgConnection::handle(pg_result* result) {
  if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
    PQclear(result);
    return on_synced();
  }
  Expected& expected = expected_.front();
  // An error stands; what follows it until the sync was not carried out.
  const bool keep_old = expected.result != nullptr && !PgReply(expected.result).ok();
  if (keep_old) {
    PQclear(result);
  } else {
    PQclear(std::exchange(expected.result, result));
  }
}

void PgConnection::on_synced() {
  const Expected done = expected_.front();
  expected_.pop_front();
  if (expected_.empty()) {
    reply_timer_.cancel();
  } else if (state_ == State::Ready) {
    reply_timer_.arm_at(loop_.now() + config_.reply_timeout);
  }
  const PgReply reply(done.result);
  if (state_ == State::SettingUp) {
    if (reply.ok() || config_.statements.empty()) {
      become_ready();
    } else {
      attempt_failed("prepare: " + reply.text());
    }
  } else {
    client_.on_pg_reply(*this, done.tag, reply);
  }
  PQclear(done.result);
}

void PgConnection::on_heap_timer(HeapTimer& timer) {
  if (&timer == &reply_timer_) return lose("the database does not answer");
  switch (state_) {
    case State::Waiting:
      return begin_attempt();
    case State::Resolving:
      if (!targets_.empty()) return connect_next();  // the last known addresses
      return attempt_failed("name lookup takes too long");
    case State::Connecting:
      return attempt_failed("connecting takes too long");
    case State::SettingUp:
      return attempt_failed("set-up takes too long");
    default:
      return;
  }
}

void PgConnection::reconnect(std::string_view why) {
  if (state_ == State::Ready) lose(why);
}

void PgConnection::reconnect_soon(std::string_view why) {
  if (state_ != State::Ready || !lost_why_.empty()) return;
  lost_why_ = why.empty() ? "lost" : why;
  loop_.make_runnable(source_);
}

void PgConnection::lose(std::string_view why) {
  const std::string reason(why);
  if (state_ != State::Ready) return attempt_failed(reason);
  std::vector<std::uint64_t> unanswered;
  for (const Expected& expected : expected_) unanswered.push_back(expected.tag);
  close();
  log_.warn("database connection lost", {log_key("purpose", config_.purpose), {"why", reason}});
  wait_and_retry(kFirstPause * static_cast<int>(rng_.between(25, 100)) / 100);
  client_.on_pg_lost(*this, unanswered);
}

void PgConnection::close() {
  ++era_;
  congested_ = was_congested_ = false;
  timer_.cancel();
  reply_timer_.cancel();
  lost_why_.clear();
  if (fd_ >= 0) loop_.remove(source_, fd_, true);
  fd_ = -1;
  for (const Expected& expected : expected_) PQclear(expected.result);
  expected_.clear();
  PQfinish(connection_);
  connection_ = nullptr;
}

std::string PgConnection::error_text() const {
  const std::string text = connection_ != nullptr ? one_line(PQerrorMessage(connection_)) : "out of memory";
  return text.empty() ? "lost" : text;
}

}  // namespace dlb::backend
