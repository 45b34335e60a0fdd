#include "backend/home_page.h"

#include <openssl/sha.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/base64.h"
#include "common/check.h"

// The sources of backend/page/, as they are: see the rule for this file in the Makefile. A zero byte would
// end nothing here; the labels do.
#define DLB_EMBED(name, files)                                                                 \
  asm(".pushsection .rodata\n" #name "_begin:\n" files #name "_end:\n.byte 0\n.popsection\n"); \
  extern "C" const char name##_begin[] __attribute__((visibility("hidden")));                  \
  extern "C" const char name##_end[] __attribute__((visibility("hidden")))
#define DLB_FILE(path) ".incbin \"backend/page/" path "\"\n"

DLB_EMBED(dlb_page_html, DLB_FILE("chat.html"));
DLB_EMBED(dlb_page_css, DLB_FILE("chat.css"));
DLB_EMBED(dlb_page_js, DLB_FILE("keys.js") DLB_FILE("storage.js") DLB_FILE("words.js") DLB_FILE("link_ws.js")
                           DLB_FILE("link_http.js") DLB_FILE("view.js") DLB_FILE("outbox.js")
                               DLB_FILE("people.js") DLB_FILE("forms.js") DLB_FILE("app.js"));

namespace dlb::backend {
namespace {

constexpr std::string_view kStyleMark = "</style>";
constexpr std::string_view kScriptMark = "</script>";

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}
std::string_view style() { return between(dlb_page_css_begin, dlb_page_css_end); }
std::string_view script() { return between(dlb_page_js_begin, dlb_page_js_end); }

struct Page {
  std::shared_ptr<const std::vector<BodyPart>> parts;
  std::size_t bytes = 0;
};

Page make_page() {
  const std::string_view html = between(dlb_page_html_begin, dlb_page_html_end);
  const std::size_t style_at = html.find(kStyleMark);
  const std::size_t script_at = html.rfind(kScriptMark);
  DLB_CHECK(style_at < script_at && script_at < html.size());
  Page page;
  std::vector<BodyPart> parts;
  for (const std::string_view bytes :
       {html.substr(0, style_at), style(), html.substr(style_at, script_at - style_at), script(),
        html.substr(script_at)}) {
    parts.push_back(BodyPart{nullptr, bytes});
    page.bytes += bytes.size();
  }
  page.parts = std::make_shared<const std::vector<BodyPart>>(std::move(parts));
  return page;
}

std::string source_of(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return "'sha256-" + base64_encode({reinterpret_cast<const char*>(digest.data()), digest.size()}) + "'";
}

}  // namespace

HttpBody home_page() {
  static const Page page = make_page();
  return HttpBody{page.parts, page.bytes};
}

std::string_view home_page_policy() {
  static const std::string policy = "default-src 'none'; script-src " + source_of(script()) + "; style-src " +
                                    source_of(style()) +
                                    "; connect-src 'self' wss:; img-src data:; base-uri 'none'; "
                                    "form-action 'none'; frame-ancestors 'none'; "
                                    "require-trusted-types-for 'script'; trusted-types 'none'";
  return policy;
}

}  // namespace dlb::backend
