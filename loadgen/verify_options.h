// Options of `loadgen verify`, with their defaults; the row array stands in verify_options.cc. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/option.h"
#include "common/result.h"

namespace dlb::loadgen {

struct VerifyOptions {
  std::string url = "http://127.0.0.1:8080";
  std::vector<std::string> wss_url;
  std::vector<std::string> backend_urls;
  std::string ca;
  bool insecure = false;
  std::string key;  // empty: a new one
  bool json = false;
  Duration timeout = std::chrono::seconds(10);
};

extern const OptionTable kVerifyOptionTable;

Result<void> finish_verify_options(const LoadedOptions& loaded, const VerifyOptions& options);

}  // namespace dlb::loadgen
