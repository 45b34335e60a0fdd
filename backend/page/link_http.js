// The link to a server without WebSocket: posts by plain HTTP, unsigned, and reads the feed again and again. The same
// handler as link_ws.js. The feed has no backward pages, so it is read from its beginning and the view keeps its newest part.

class HttpLink {
  static kPollMs = 1500;
  static kPage = 500;

  constructor(handler) {
    this.handler = handler;
    this.verified = false;
    this.running = false;
    this.greeted = false;
    this.after = 0;
    this.etag = "";
  }

  get ready() { return this.running && this.greeted; }

  start() {
    this.running = true;
    this.handler.onState("busy", "connecting…");
    this.poll();
  }

  stop() {
    this.running = false;
    clearTimeout(this.timer);
  }

  hurry() {
    clearTimeout(this.timer);
    if (this.running) this.poll();
  }

  async poll() {
    const round = this.round = (this.round ?? 0) + 1;
    const current = () => this.running && this.round === round;
    try {
      for (let more = true; more && current();) {
        const headers = this.etag ? {"If-None-Match": this.etag} : {};
        const answer = await fetch(`feed?after=${this.after}&limit=${HttpLink.kPage}`, {headers, cache: "no-store"});
        if (!current() || answer.status === 304) break;
        if (!answer.ok) throw new Error(`status ${answer.status}`);
        this.etag = answer.headers.get("ETag") ?? "";
        const page = await answer.json();
        if (!current()) break;
        for (const message of page.messages) this.handler.onMessage(message);
        if (page.messages.length > 0) {
          this.after = page.messages.at(-1).sequence;
          this.etag = "";  // it was of another page
        }
        more = page.has_more === true;
      }
      if (current()) this.answered();
    } catch {
      if (current()) this.handler.onState("off", "no connection; trying again");
    }
    if (current()) this.timer = setTimeout(() => this.poll(), HttpLink.kPollMs);
  }

  answered() {
    this.handler.onState("ok", "by HTTP, unsigned");
    if (this.greeted) return;
    this.greeted = true;
    this.handler.onReady(true);
  }

  async post(entry) {
    const body = JSON.stringify({"client-name": entry.name, msg: entry.text, "message-id": entry.id});
    let answer, said = {};
    try {
      answer = await fetch("message", {method: "POST", body, cache: "no-store",
        headers: {"Content-Type": "application/json", "Idempotency-Key": entry.id}});
      said = await answer.json();
    } catch {
      answer ??= null;
    }
    if (answer?.ok && said.message) {
      this.handler.onAck({"message-id": entry.id, ...said.message, duplicate: said.duplicate});
    } else if (answer === null || answer.ok || answer.status >= 500) {
      this.handler.onRefused(entry.id, "unavailable", said.detail);  // the same id again: it is stored once
    } else {
      this.handler.onRefused(entry.id, said.error ?? `status ${answer.status}`, said.detail);
    }
  }

  async history() { return {messages: [], before: null}; }
  async users() { return null; }
  async keyOf() { throw new Error("Keys are not told by HTTP."); }
}
