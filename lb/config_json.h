// The configuration in force as a JSON object, made from the option rows: durations and sizes as they are
// written in the file, secrets left out. Reads only; any thread.
#pragma once

#include "common/json_writer.h"
#include "lb/options.h"

namespace dlb::lb {

// Writes one value: the object.
void write_config_json(JsonWriter& json, const Options& options);

}  // namespace dlb::lb
