// The table and the verdict of `loadgen verify`, and what unpacks compressed feeds.
#include "loadgen/verify_report.h"

#include <zlib.h>

#include "loadgen/chat_users.h"
#include "loadgen/gunzip.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

using std::chrono::milliseconds;

std::string gzip_of(std::string_view text) {
  std::string out(text.size() + 64, '\0');
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

VerifyReport report_of(CheckOutcome second) {
  VerifyReport report;
  report.url = "http://a";
  report.rows = {{"health", CheckOutcome::Pass, milliseconds(12), "healthy, by b1", "the log"},
                 {"feed", second, milliseconds(3), "the \"message\" is lost", "the database"},
                 {"gzip", CheckOutcome::Skip, {}, "not possible", ""}};
  return report;
}

TEST_CASE("verify: the exit code tells failed from unreached") {
  CHECK(exit_code(report_of(CheckOutcome::Pass)) == 0);
  CHECK(exit_code(report_of(CheckOutcome::Skip)) == 0);
  CHECK(exit_code(report_of(CheckOutcome::Fail)) == 3);
  CHECK(exit_code(report_of(CheckOutcome::Unreachable)) == 2);
  VerifyReport report = report_of(CheckOutcome::Fail);
  report.interrupted = true;
  CHECK(exit_code(report) == 130);
}

TEST_CASE("verify: a line a check, and what to look at under one that failed") {
  const std::string text = verify_text(report_of(CheckOutcome::Fail));
  CHECK(text ==
        "pass  health     12.0 ms  healthy, by b1\n"
        "FAIL  feed        3.0 ms  the \"message\" is lost\n"
        "      look at: the database\n"
        "skip  gzip        0.0 ms  not possible\n"
        "http://a: 1 passed, 1 failed, 1 skipped\n");
  const std::string json = verify_json(report_of(CheckOutcome::Fail));
  CHECK(json.find(R"("passed":false,"exit_code":3)") != std::string::npos);
  CHECK(json.find(R"({"name":"feed","outcome":"fail","ms":3.000,"found":"the \"message\" is lost",)"
                  R"("hint":"the database"})") != std::string::npos);
  CHECK(json.find("the log") == std::string::npos);
}

TEST_CASE("gunzip: whole and valid, of one member or several, and bounded") {
  const std::string text(100'000, 'x');
  CHECK(gunzip(gzip_of("hello"), 100) == "hello");
  CHECK(gunzip(gzip_of(text), text.size()) == text);
  CHECK(gunzip(gzip_of("one, ") + gzip_of("two"), 100) == "one, two");
  CHECK_FALSE(gunzip(gzip_of(text), text.size() - 1));
  CHECK_FALSE(gunzip(gzip_of("hello").substr(0, 12), 100));
  CHECK_FALSE(gunzip("hello", 100));
  CHECK_FALSE(gunzip("", 100));
}

TEST_CASE("names of users say whose they are") {
  const auto one = RsaPrivateKey::generate();
  const auto two = RsaPrivateKey::generate();
  REQUIRE(one);
  REQUIRE(two);
  CHECK(chat_user_prefix("chat", *one) == chat_user_prefix("chat", *one));
  CHECK(chat_user_prefix("chat", *one) != chat_user_prefix("chat", *two));
  CHECK(chat_user_prefix("chat", *one).size() == std::string("chat-0123456789ab-").size());
}

}  // namespace
}  // namespace dlb::loadgen
