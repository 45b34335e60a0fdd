// gunzip: a whole gzip body, as one of several members if it has several, back to its bytes. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dlb::loadgen {

// Nothing when it is not whole and valid gzip, or would be longer than `most`.
std::optional<std::string> gunzip(std::string_view compressed, std::size_t most);

}  // namespace dlb::loadgen
