// Replays the fuzzers' corpora: inputs that reached new code, and every one that ever broke something.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "test/fuzz/http_checks.h"
#include "test/fuzz/proxy_checks.h"
#include "test/fuzz/ws_checks.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

// Runs `check` over each file of test/fuzz/corpus/NAME (the tests run at the root of the tree); how many
// there were.
int replay(const std::string& name, void (*check)(std::string_view)) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("test/fuzz/corpus/" + name)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    check(text.str());
    ++count;
  }
  return count;
}

TEST_CASE("the fuzzers' corpora hold", "[fuzz]") {
  CHECK(replay("request_head", fuzz::check_request_head) > 20);
  CHECK(replay("response_head", fuzz::check_response_head) > 20);
  CHECK(replay("chunked", fuzz::check_chunked) > 20);
  CHECK(replay("proxy_protocol", fuzz::check_proxy_header) > 20);
  CHECK(replay("ws_frame", fuzz::check_ws_frames) > 20);
}

}  // namespace
}  // namespace dlb
