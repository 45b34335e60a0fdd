// What `lb ctl` is asked to do: its options, its command and what the command takes. Values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/option.h"
#include "common/result.h"

namespace dlb::lb {

struct CtlOptions {
  // Where, as the balancer's own options say it.
  std::string admin_listen = "127.0.0.1:9180";
  std::string admin_token_file;

  bool json = false;
  Duration wait{};  // 0: the answer is enough
  Duration timeout = std::chrono::seconds(5);
};

extern const OptionTable kCtlOptionTable;

struct CtlCommand {
  enum class Kind : std::uint8_t { Status, Drain, Ready, Weight, Reload };
  Kind kind = Kind::Status;
  std::vector<std::string> backends;  // Status: those to show, empty for all; the others: the one
  std::int64_t weight = 0;
};

// What the command line says, behind load_options(). The error is one line.
Result<CtlCommand> ctl_command(const LoadedOptions& loaded);

// Takes `-c FILE` out of `arguments`: the balancer's configuration, whose admin-listen and admin-token-file
// become the defaults of `options`.
Result<void> take_balancer_configuration(std::vector<const char*>& arguments, CtlOptions& options);

}  // namespace dlb::lb
