// The certificate that the embedded mode makes for its WebSocket port, so that the system runs with nothing
// set up: self-signed, in a folder of its own below data-dir. Browsers ask once; everything else is told to
// trust the file. Start-up only; it blocks.
#pragma once

#include <string>

#include "common/result.h"

namespace dlb::backend {

struct TlsFiles {
  std::string certificate;
  std::string key;
};

// `data_dir`/tls/tls.crt and tls.key.
TlsFiles made_tls_files(const std::string& data_dir);

// Makes both when they are not there. Any number of processes may do so at once: one folder is put in place
// whole, and all use that. The error is one line.
Result<TlsFiles> make_tls_files(const std::string& data_dir);

}  // namespace dlb::backend
