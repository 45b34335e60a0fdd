// The key file of the terminal client: a PKCS#8 key in PEM, as the chat page saves and opens it, which nobody
// else may read. Start-up only: it touches files and may take seconds.
#pragma once

#include <string>
#include <string_view>

#include "common/result.h"
#include "common/rsa_pss.h"

namespace dlb::loadgen {

struct ChatKey {
  RsaPrivateKey key;
  bool made = false;    // there was no file: now there is
  std::string warning;  // one line when others can read the file; else empty
};

// Reads `path`, or makes a key there (mode 0600) when there is nothing; of two first uses at one time both
// get the same key. `name` stands in a fresh file as a comment.
Result<ChatKey> load_or_make_key(const std::string& path, std::string_view name);

// `dlb-NAME.pem`, where what is unusual in names of files is an underscore.
std::string default_key_file(std::string_view name);

}  // namespace dlb::loadgen
