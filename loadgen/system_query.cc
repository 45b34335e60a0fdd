#include "loadgen/system_query.h"

#include <utility>

#include "common/check.h"

namespace dlb::loadgen {

SystemQuery::SystemQuery(ConnectionPool& pool, SystemQueryOwner& owner, const Target& target,
                         std::vector<std::string> paths)
    : pool_(pool), owner_(owner), target_(target), paths_(std::move(paths)) {}

SystemQuery::~SystemQuery() {
  if (Connection* connection = pool_.get(connection_); connection != nullptr) pool_.discard(*connection);
}

void SystemQuery::start() {
  DLB_CHECK(!running_);
  running_ = true;
  answers_.clear();
  Connection* connection = pool_.get(connection_);
  if (connection != nullptr && connection->idle()) {
    ask(*connection);
  } else {
    connect();
  }
}

void SystemQuery::connect() {
  Connection& connection = pool_.open(*this);
  connection_ = connection.handle();
  if (connection.connect(target_) != 0) {
    drop(connection);
    end();
  }
}

void SystemQuery::on_connected(Connection& connection) { ask(connection); }

void SystemQuery::ask(Connection& connection) {
  body_.clear();
  status_ = 0;
  too_long_ = false;
  connection.send("GET " + target_.base_path + paths_[answers_.size()] +
                      " HTTP/1.1\r\nHost: " + target_.host + "\r\nAccept: application/json\r\n\r\n",
                  HttpMethod::Get);
}

void SystemQuery::on_head(Connection&, const ResponseHead& head) { status_ = head.status; }

void SystemQuery::on_body(Connection&, std::string_view bytes) {
  too_long_ = too_long_ || body_.size() + bytes.size() > kMaxBodyBytes;
  if (!too_long_) body_ += bytes;
}

void SystemQuery::on_end(Connection& connection, ExchangeEnd end_kind, int) {
  const bool good = end_kind == ExchangeEnd::Complete && status_ == 200 && !too_long_;
  const bool open = connection.idle();
  if (!open) drop(connection);
  if (good) answers_.push_back(std::move(body_));
  if (!good || complete()) {
    end();
  } else if (open) {
    ask(connection);
  } else {
    connect();
  }
}

void SystemQuery::on_idle_close(Connection& connection) { drop(connection); }

void SystemQuery::drop(Connection& connection) {
  pool_.discard(connection);
  connection_ = {};
}

void SystemQuery::end() {
  running_ = false;
  owner_.on_answers(*this);
}

}  // namespace dlb::loadgen
