// ConnectionPool: owns the generator's connections and keeps the idle ones per target, the latest used on
// top. An idle connection that its server closes leaves the pool at once, so that it is not handed out. One
// loop.
#pragma once

#include <cstddef>
#include <vector>

#include "common/event_loop.h"
#include "common/slab.h"
#include "loadgen/connection.h"

namespace dlb::loadgen {

class ConnectionPool final : public ConnectionUser, public TurnEndHook {
 public:
  // At most `capacity` connections at a time, to `targets` targets numbered from 0.
  ConnectionPool(ConnectionContext& context, std::size_t capacity, std::size_t targets);
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;
  ~ConnectionPool();

  // A new, unconnected connection. Requires that fewer than `capacity` are there.
  Connection& open(ConnectionUser& user);
  // An idle connection to the target, or null.
  Connection* take_idle(std::size_t target, ConnectionUser& user);
  // Requires connection.idle().
  void put_idle(std::size_t target, Connection& connection);
  // Closes it, if it still is open, and gives it back at the end of the turn.
  void discard(Connection& connection);
  void close_idle();

  Connection* get(Handle<Connection> handle) { return connections_.get(handle); }

  void on_turn_end() override { connections_.reap(); }
  void on_connected(Connection&) override {}
  void on_head(Connection&, const ResponseHead&) override {}
  void on_body(Connection&, std::string_view) override {}
  void on_end(Connection&, ExchangeEnd, int) override {}
  void on_idle_close(Connection& connection) override;

 private:
  ConnectionContext& context_;
  Slab<Connection> connections_;
  std::vector<std::vector<Handle<Connection>>> idle_;  // per target
};

}  // namespace dlb::loadgen
