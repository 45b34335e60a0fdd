#include "backend/home_page.h"

#include <memory>
#include <vector>

namespace dlb::backend {
namespace {

// Text of others goes into the page by textContent only, never as markup.
constexpr std::string_view kPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>dlb chat</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.45 system-ui, sans-serif; max-width: 44rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.25rem; margin: 0 0 .5rem; }
#log { list-style: none; margin: 0; padding: 0; height: 60vh; overflow-y: auto; border: 1px solid #8886; border-radius: .4rem; }
#log li { padding: .35rem .6rem; border-bottom: 1px solid #8883; overflow-wrap: anywhere; white-space: pre-wrap; }
#log b { margin-right: .5rem; }
#log time { float: right; font-size: .75rem; opacity: .65; margin-left: .5rem; }
form { display: flex; flex-wrap: wrap; gap: .5rem; margin-top: .75rem; }
input, button { font: inherit; padding: .45rem .6rem; }
#name { width: 9rem; }
#text { flex: 1; min-width: 12rem; }
#state { font-size: .85rem; opacity: .75; min-height: 1.3em; }
</style>
</head>
<body>
<h1>dlb chat</h1>
<ul id="log" aria-live="polite"></ul>
<form id="form">
<input id="name" placeholder="your name" maxlength="64" required autocomplete="nickname" aria-label="your name">
<input id="text" placeholder="message" required autocomplete="off" aria-label="message">
<button>Send</button>
</form>
<p id="state" role="status"></p>
<script>
"use strict";
const log = document.getElementById("log"), state = document.getElementById("state");
const form = document.getElementById("form"), name = document.getElementById("name"), text = document.getElementById("text");
let after = 0, etag = "";

function show(message) {
  const item = document.createElement("li");
  const when = document.createElement("time"), who = document.createElement("b"), what = document.createElement("span");
  when.textContent = new Date(message.timestamp).toLocaleTimeString();
  who.textContent = message["client-name"];
  what.textContent = message.msg === null ? "(can't be decrypted)" : message.msg;
  item.append(when, who, what);
  const low = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  log.append(item);
  while (log.childElementCount > 1000) log.firstChild.remove();
  if (low) log.scrollTop = log.scrollHeight;
}

async function refresh() {
  try {
    for (let more = true; more;) {
      const answer = await fetch(`feed?after=${after}&limit=500`, etag ? {headers: {"If-None-Match": etag}} : {});
      if (answer.status === 304) break;
      if (!answer.ok) throw new Error(answer.status);
      etag = answer.headers.get("ETag") || "";
      const page = await answer.json();
      page.messages.forEach(show);
      if (page.messages.length) { after = page.messages.at(-1).sequence; etag = ""; }
      more = page.has_more === true;
    }
    state.textContent = "";
  } catch (error) {
    state.textContent = "The feed can't be read now; trying again.";
  }
  setTimeout(refresh, 1500);
}

form.addEventListener("submit", async event => {
  event.preventDefault();
  const id = Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, "0")).join("");
  const body = JSON.stringify({"client-name": name.value, msg: text.value, "message-id": id});
  for (let attempt = 0; attempt < 3; ++attempt) {
    try {
      const answer = await fetch("message", {method: "POST", body,
        headers: {"Content-Type": "application/json", "Idempotency-Key": id}});
      if (answer.ok) { text.value = ""; state.textContent = ""; return; }
      const error = await answer.json();
      state.textContent = error.detail;
      if (answer.status !== 503) return;
    } catch (error) {
      state.textContent = "Not sent; trying again.";
    }
    await new Promise(done => setTimeout(done, 1000));
  }
});
refresh();
</script>
</body>
</html>
)html";

}  // namespace

HttpBody home_page() {
  static const auto parts = std::make_shared<const std::vector<BodyPart>>(1, BodyPart{nullptr, kPage});
  return HttpBody{parts, kPage.size()};
}

}  // namespace dlb::backend
