// PgCluster: a private PostgreSQL server for one test program: its own folder, a free port on loopback,
// database `chat` of role `chat_user` without passwords. Stopped and removed with the object. Run as root it
// becomes user postgres, since the server refuses root.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/check.h"
#include "common/fd.h"

namespace dlb::test {

class PgCluster {
 public:
  PgCluster() {
    DLB_CHECK_MSG(!bin_folder().empty(), "PostgreSQL is not installed: run deploy/setup.sh test");
    std::string pattern = (std::filesystem::temp_directory_path() / "dlb-pg-XXXXXX").string();
    DLB_CHECK(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    if (::geteuid() == 0) DLB_CHECK(std::system(("chown postgres " + folder_).c_str()) == 0);
    DLB_CHECK_MSG(run("initdb -D " + folder_ + "/data -A trust -U postgres -E UTF8 --no-locale") == 0,
                  log_text());
    port_ = free_port();
    start();
    DLB_CHECK_MSG(psql_as("postgres", "CREATE ROLE chat_user LOGIN", "postgres") == 0, log_text());
    DLB_CHECK_MSG(psql_as("postgres", "CREATE DATABASE chat OWNER chat_user", "postgres") == 0, log_text());
  }
  PgCluster(const PgCluster&) = delete;
  PgCluster& operator=(const PgCluster&) = delete;
  ~PgCluster() {
    stop("immediate");
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Idempotent.
  void start() {
    if (running_) return;
    DLB_CHECK_MSG(run("pg_ctl -D " + folder_ + "/data -w -l " + folder_ + "/server.log -o '-p " +
                      std::to_string(port_) + " -k " + folder_ +
                      " -c listen_addresses=127.0.0.1 -c fsync=off' start") == 0,
                  log_text());
    running_ = true;
  }
  // "fast" or "immediate".
  void stop(const std::string& mode) {
    if (running_) [[maybe_unused]]
      const int ignored = run("pg_ctl -D " + folder_ + "/data -w -m " + mode + " stop");
    running_ = false;
  }

  std::string url(const std::string& database = "chat", const std::string& user = "chat_user") const {
    return "postgresql://" + user + "@127.0.0.1:" + std::to_string(port_) + "/" + database;
  }
  int port() const { return port_; }
  const std::string& folder() const { return folder_; }

  int psql_as(const std::string& user, const std::string& sql, const std::string& database = "chat") const {
    return run("psql -X -q -v ON_ERROR_STOP=1 -d '" + url(database, user) + "' -c \"" + sql + "\"");
  }

 private:
  static std::string bin_folder() {
    std::error_code ignored;
    std::string best;
    for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql", ignored)) {
      const std::string bin = entry.path().string() + "/bin";
      if (std::filesystem::exists(bin + "/initdb", ignored) && bin > best) best = bin;
    }
    return best;
  }

  int run(const std::string& command) const {
    const std::string become = ::geteuid() == 0 ? "runuser -u postgres -- " : "";
    return std::system(
        ("cd / && " + become + bin_folder() + "/" + command + " >>" + folder_ + "/test.log 2>&1").c_str());
  }

  std::string log_text() const {
    [[maybe_unused]] const int ignored = std::system(("cat " + folder_ + "/*.log >&2").c_str());
    return "see above";
  }

  static int free_port() {
    const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    DLB_CHECK(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    DLB_CHECK(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return ntohs(address.sin_port);
  }

  std::string folder_;
  int port_ = 0;
  bool running_ = false;
};

}  // namespace dlb::test
