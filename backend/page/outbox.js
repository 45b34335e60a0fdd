// Messages on their way. Each gets its id here, once, and keeps it: it is stored in the browser, sent, and sent again after
// every lost connection, until the server has acknowledged it under that id; the server stores an id once. So nothing is
// lost and nothing doubled, whatever breaks and when. One at a time, so that their order stays.
//
//   waiting ──link is ready──▶ sent ──ack, or seen live──▶ gone
//      ▲                        │ └──refused for good──▶ failed ──by hand──▶ waiting, under a new id, or gone
//      └── lost, passing error ─┘                 (also what was written under another name: it would be another message)

class Outbox {
  static kAckMs = 20000;  // without an ack on a link that lives it is sent again
  static kAgainMs = 1500;  // behind an error that passes

  constructor(storage, handler) {
    this.storage = storage;
    this.handler = handler;  // onChanged(entry), onGone(id)
    this.entries = new Map();
    this.link = null;
  }

  static newId() {
    const hex = Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, "0")).join("");
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  }

  // What an earlier visit left.
  async load() {
    for (const {id, text, name, at} of await this.storage.outbox()) {
      if (!this.entries.has(id)) this.entries.set(id, {id, text, name, at, state: "waiting", why: "waiting for the connection…"});
    }
    this.entries = new Map([...this.entries].sort(([, a], [, b]) => a.at - b.at));
    for (const entry of this.entries.values()) this.handler.onChanged(entry);
  }

  add(text, name) {
    const entry = {id: Outbox.newId(), text, name, at: Date.now(), state: "waiting", why: ""};
    this.entries.set(entry.id, entry);
    // Before it goes out, so that a reload in between knows of it; a browser that can't store doesn't hold it up.
    this.storage.keepMessage({id: entry.id, text, name, at: entry.at}).catch(() => {}).finally(() => this.pump());
    this.handler.onChanged(entry);
    return entry;
  }

  // `link`: ready from now on for messages of `name`; or null.
  use(link, name) {
    this.link = link;
    clearTimeout(this.timer);
    for (const entry of this.entries.values()) {
      if (entry.state === "failed") continue;
      if (entry.name !== name) this.set(entry, "failed", `It was written as ${entry.name}.`);
      else if (!link) this.set(entry, "waiting", "waiting for the connection…");
      else entry.state = "waiting";
    }
    this.pump();
  }

  pump() {
    if (!this.link?.ready) return;
    for (const entry of this.entries.values()) {
      if (entry.state === "sent") return;
      if (entry.state !== "waiting") continue;
      this.set(entry, "sent", "");
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.again(entry), Outbox.kAckMs);
      this.link.post(entry);
      return;
    }
  }

  again(entry) {
    if (entry.state === "sent") entry.state = "waiting";
    this.pump();
  }

  set(entry, state, why) {
    entry.state = state;
    entry.why = why;
    this.handler.onChanged(entry);
  }

  // It is stored at the server. Returns the entry, if it was ours to deliver.
  done(id) {
    const entry = this.entries.get(id);
    if (!entry) return null;
    this.discard(id);
    return entry;
  }

  discard(id) {
    if (!this.entries.delete(id)) return;
    this.storage.dropMessage(id).catch(() => {});
    this.handler.onGone(id);
    this.pump();
  }

  refused(id, code, detail) {
    const entry = this.entries.get(id);
    if (!entry || entry.state !== "sent") return;
    clearTimeout(this.timer);
    const why = Words.of(code, detail);
    if (Words.passing.has(code)) {
      this.handler.onChanged(Object.assign(entry, {why}));  // still "sent": nothing overtakes it
      this.timer = setTimeout(() => this.again(entry), Outbox.kAgainMs * (0.5 + Math.random()));
    } else {
      this.set(entry, "failed", why);
      this.pump();
    }
  }

  // By hand, of a failed one: its text as a new message.
  resend(id, name) {
    const entry = this.entries.get(id);
    if (!entry) return;
    this.discard(id);
    this.add(entry.text, name);
  }
}
