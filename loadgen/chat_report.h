// The part of a run's report that tells of its chat users. Pure.
#pragma once

#include <string>
#include <vector>

#include "loadgen/chat_result.h"

namespace dlb {
class JsonWriter;
}

namespace dlb::loadgen {

// Writes the object that stands under "chat".
void chat_json(JsonWriter& json, const ChatResult& chat);
// A few lines for people.
std::string chat_text(const ChatResult& chat);
// Why a run with these subscribers failed, one sentence each; empty when they got everything.
std::vector<std::string> chat_failures(const ChatResult& chat);

}  // namespace dlb::loadgen
