#include "common/tls_context.h"

#include <sys/stat.h>

#include "test/support/catch.h"
#include "test/support/certificates.h"
#include "test/support/temp_dir.h"

namespace dlb {
namespace {

struct Files {
  Files() {
    test::make_certificate(dir.path(), "a");
    test::make_certificate(dir.path(), "b");
    REQUIRE(::chmod(dir.file("a.key").c_str(), 0600) == 0);
  }
  // The error, or the empty string.
  std::string load(const std::string& certificate, const std::string& key) {
    warnings.clear();
    const auto loaded = TlsContext::load(dir.file(certificate), dir.file(key), warnings);
    return loaded ? std::string() : loaded.error().text;
  }
  test::TempDir dir;
  std::vector<std::string> warnings;
};

bool says(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("tls context: a certificate and its key load without a word") {
  Files files;
  CHECK(files.load("a.crt", "a.key").empty());
  CHECK(files.warnings.empty());
}

TEST_CASE("tls context: errors are one line, name the file and say what is wrong") {
  Files files;
  files.dir.write("text.pem", "not a PEM file\n");
  const std::string missing = files.load("none.crt", "a.key");
  CHECK(says(missing, "none.crt"));
  CHECK(says(missing, "ENOENT"));
  CHECK(says(files.load("a.crt", "none.key"), "none.key"));
  CHECK(says(files.load("text.pem", "a.key"), "text.pem: no usable PEM certificate"));
  CHECK(says(files.load("a.crt", "text.pem"), "text.pem: no usable PEM key"));
  const std::string mismatch = files.load("a.crt", "b.key");
  CHECK(says(mismatch, "b.key: is not the key of the certificate in"));
  CHECK(says(mismatch, "a.crt"));
  CHECK_FALSE(says(mismatch, "\n"));
}

TEST_CASE("tls context: an expired certificate and an open key file are warnings") {
  Files files;
  test::make_certificate(files.dir.path(), "old", -3);
  REQUIRE(::chmod(files.dir.file("old.key").c_str(), 0644) == 0);
  CHECK(files.load("old.crt", "old.key").empty());
  REQUIRE(files.warnings.size() == 2);
  CHECK(says(files.warnings[0], "old.crt: the certificate has expired"));
  CHECK(says(files.warnings[1], "old.key: everyone can read"));
}

}  // namespace dlb
