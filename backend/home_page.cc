#include "backend/home_page.h"

#include "common/embedded_page.h"

// The sources of backend/page/, as they are: see the rule for this file in the Makefile.
#define DLB_FILE(path) DLB_EMBEDDED_FILE("backend/page/" path)

DLB_EMBED(dlb_page_html, DLB_FILE("chat.html"))
DLB_EMBED(dlb_page_css, DLB_FILE("chat.css"))
DLB_EMBED(dlb_page_js, DLB_FILE("keys.js") DLB_FILE("storage.js") DLB_FILE("words.js") DLB_FILE("link_ws.js")
                           DLB_FILE("link_http.js") DLB_FILE("view.js") DLB_FILE("outbox.js")
                               DLB_FILE("people.js") DLB_FILE("forms.js") DLB_FILE("app.js"))

namespace dlb::backend {
namespace {

const EmbeddedPage& page() {
  static const EmbeddedPage made = make_embedded_page(dlb_page_html(), dlb_page_css(), dlb_page_js(),
                                                      "connect-src 'self' wss:; img-src data:");
  return made;
}

}  // namespace

HttpBody home_page() { return page().body; }

std::string_view home_page_policy() { return page().policy; }

}  // namespace dlb::backend
