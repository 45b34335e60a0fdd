// The name of one life of the message table: a random UUID in the meta table, renewed when the table was
// truncated or restored. Part of the feed's ETag.
#pragma once

#include <string>

namespace dlb::backend {

// A version 4 UUID.
std::string new_generation();

}  // namespace dlb::backend
