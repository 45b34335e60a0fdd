#include "loadgen/connection_pool.h"

#include <algorithm>

#include "common/check.h"

namespace dlb::loadgen {

ConnectionPool::ConnectionPool(ConnectionContext& context, std::size_t capacity, std::size_t targets)
    : context_(context), connections_(capacity), idle_(targets) {
  context_.loop.add_turn_end_hook(*this);
}

ConnectionPool::~ConnectionPool() { context_.loop.remove_turn_end_hook(*this); }

Connection& ConnectionPool::open(ConnectionUser& user) {
  Connection* connection = connections_.create(context_, user);
  DLB_CHECK(connection != nullptr);
  return *connection;
}

Connection* ConnectionPool::take_idle(std::size_t target, ConnectionUser& user) {
  auto& stack = idle_[target];
  if (stack.empty()) return nullptr;
  Connection* connection = connections_.get(stack.back());
  stack.pop_back();
  DLB_CHECK(connection != nullptr && connection->idle());
  connection->set_user(user);
  return connection;
}

void ConnectionPool::put_idle(std::size_t target, Connection& connection) {
  DLB_CHECK(connection.idle());
  connection.set_user(*this);
  idle_[target].push_back(connection.handle());
}

void ConnectionPool::discard(Connection& connection) {
  connection.close();
  connections_.retire(connection.handle());
}

void ConnectionPool::close_idle() {
  for (auto& stack : idle_) {
    for (const Handle<Connection> handle : stack) discard(*connections_.get(handle));
    stack.clear();
  }
}

void ConnectionPool::on_idle_close(Connection& connection) {
  for (auto& stack : idle_) std::erase(stack, connection.handle());
  discard(connection);
}

}  // namespace dlb::loadgen
