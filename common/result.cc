#include "common/result.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace dlb {

Error errno_error(std::string_view what, int err) {
  const char* name = strerrorname_np(err);
  const char* description = strerrordesc_np(err);
  std::string text(what);
  text += ": ";
  text += name != nullptr ? name : std::to_string(err);
  text += " (";
  text += description != nullptr ? description : "unknown error";
  text += ")";
  return Error{std::move(text), err};
}

void check_failed(const char* file, int line, const char* expression, std::string_view detail) {
  std::fprintf(stderr, "level=fatal msg=\"broken invariant\" at=%s:%d check=\"%s\" detail=\"%.*s\"\n", file,
               line, expression, static_cast<int>(detail.size()), detail.data());
  std::abort();
}

}  // namespace dlb
