// Options of `loadgen chat`, with their defaults; the row array stands in chat_options.cc. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "common/clock.h"
#include "common/option.h"
#include "common/result.h"

namespace dlb::loadgen {

struct ChatOptions {
  std::string url = "wss://127.0.0.1:5000/ws";
  std::string username;
  std::string key;  // empty: default_key_file()
  std::string ca;
  bool insecure = false;
  std::string send;
  bool follow = false;
  std::int64_t history = 0;
  bool json = false;
  Duration timeout = std::chrono::seconds(30);
};

extern const OptionTable kChatOptionTable;

Result<void> finish_chat_options(const LoadedOptions& loaded, ChatOptions& options);

// Whether lines of the standard input are messages: unless the text was given, or only history is wanted.
bool reads_input(const LoadedOptions& loaded, const ChatOptions& options);

}  // namespace dlb::loadgen
