// The option rows that programs with WebSocket users share: where the chat is and whom they believe. A row
// belongs to a struct with members of these names. Declarations only.
#pragma once

#include "common/option.h"

namespace dlb::loadgen {

template <class Options>
constexpr OptionRow wss_url_row(std::string_view help) {
  return option<&Options::wss_url>("wss-url", {.unit = "urls", .help = help});
}

template <class Options>
constexpr OptionRow ca_row() {
  return option<&Options::ca>(
      "ca", {.unit = "path", .help = "PEM certificates to believe instead of the system's."});
}

template <class Options>
constexpr OptionRow insecure_row() {
  return option<&Options::insecure>("insecure",
                                    {.help = "Believe any certificate: only for a look at a test system."});
}

}  // namespace dlb::loadgen
