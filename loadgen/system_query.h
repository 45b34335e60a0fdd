// SystemQuery: asks one system for one or more documents, one after the other, on a connection of its own
// that is kept from time to time. One query at a time; it ends with all answers, or with the first failure.
// On the loop, with a context that is not the load's: other deadlines, and its bytes are in no figure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loadgen/connection_pool.h"
#include "loadgen/target.h"

namespace dlb::loadgen {

class SystemQuery;

class SystemQueryOwner {
 public:
  // `query.answers()` has the bodies, as many as were asked for; or, after a failure, fewer.
  virtual void on_answers(SystemQuery& query) = 0;

 protected:
  ~SystemQueryOwner() = default;
};

class SystemQuery final : public ConnectionUser {
 public:
  static constexpr std::size_t kMaxBodyBytes = 1024 * 1024;  // a longer answer is a failure

  // Pool and owner outlive it. `paths` are below the target's base path: "/lb/metrics".
  SystemQuery(ConnectionPool& pool, SystemQueryOwner& owner, const Target& target,
              std::vector<std::string> paths);
  SystemQuery(const SystemQuery&) = delete;
  SystemQuery& operator=(const SystemQuery&) = delete;
  ~SystemQuery();

  // Requires !running(). The owner is told also when it fails at once.
  void start();
  bool running() const { return running_; }
  bool complete() const { return answers_.size() == paths_.size(); }
  const std::vector<std::string>& answers() const { return answers_; }
  const Target& target() const { return target_; }

  void on_connected(Connection& connection) override;
  void on_head(Connection& connection, const ResponseHead& head) override;
  void on_body(Connection& connection, std::string_view bytes) override;
  void on_end(Connection& connection, ExchangeEnd end, int err) override;
  void on_idle_close(Connection& connection) override;

 private:
  void connect();
  void ask(Connection& connection);
  void drop(Connection& connection);
  void end();

  ConnectionPool& pool_;
  SystemQueryOwner& owner_;
  Target target_;
  std::vector<std::string> paths_;
  std::vector<std::string> answers_;
  Handle<Connection> connection_;
  std::string body_;
  int status_ = 0;
  bool too_long_ = false;
  bool running_ = false;
};

}  // namespace dlb::loadgen
