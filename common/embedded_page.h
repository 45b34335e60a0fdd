// A web page that is compiled in: one self-contained document out of a page, its style and its script, which
// stand in the program as they are in the tree, and the policy that lets a browser run exactly these. The .cc
// that embeds depends on the files; the compiler doesn't see that: a rule of the Makefile says so.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/http_body.h"

// Defines `name`: a function whose answer is the bytes of `files`, one after the other. Each is
// DLB_EMBEDDED_FILE("path from the root"). A zero byte would end nothing: the labels do.
#define DLB_EMBED(name, files)                                                                 \
  asm(".pushsection .rodata\n" #name "_begin:\n" files #name "_end:\n.byte 0\n.popsection\n"); \
  extern "C" const char name##_begin[] __attribute__((visibility("hidden")));                  \
  extern "C" const char name##_end[] __attribute__((visibility("hidden")));                    \
  [[maybe_unused]] static std::string_view name() {                                            \
    return {name##_begin, static_cast<std::size_t>(name##_end - name##_begin)};                \
  }
#define DLB_EMBEDDED_FILE(path) ".incbin \"" path "\"\n"

namespace dlb {

struct EmbeddedPage {
  HttpBody body;       // of static bytes, shared by all who get it
  std::string policy;  // for Content-Security-Policy
};

// `html` has an empty <style></style> and, last, an empty <script></script>: the style and the script go
// there. All three are static. `sources` are directives besides the hashes: "connect-src 'self'; img-src
// data:".
EmbeddedPage make_embedded_page(std::string_view html, std::string_view style, std::string_view script,
                                std::string_view sources);

}  // namespace dlb
