// The server's messages of the WSS protocol as JSON text. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/chat_input.h"
#include "backend/chat_store.h"
#include "backend/message.h"

namespace dlb::backend {

inline constexpr std::string_view kChatPong = R"({"type":"pong"})";
inline constexpr std::string_view kChatReset = R"({"type":"reset"})";

std::string chat_error(const ChatError& error, std::string_view message_id);  // empty: without one
std::string chat_registered(std::string_view username);
std::string chat_ack(std::string_view message_id, const PutOutcome& outcome);  // Created, Duplicate
std::string chat_live(std::string_view element);
std::string chat_history(const RowsAnswer& page);
std::string chat_resumed(std::int64_t count, std::int64_t through_sequence);
std::string chat_users(const std::vector<std::string>& names);
// An empty key: nobody has the name.
std::string chat_key(std::string_view username, std::string_view public_key_der);

}  // namespace dlb::backend
