// The page: finds out how to talk to the server, lets a person join, and wires link, outbox and conversation together.
//
//   /info ──▶ WSS and a secure context ──▶ join with a key ──▶ WsLink
//        ├──▶ WSS, but no secure context ──▶ a link to the TLS origin, nothing else
//        └──▶ no WSS ──▶ join with a name ──▶ HttpLink

class App {
  static kPage = 50;
  static kInfoAgainMs = 2000;

  constructor(storage) {
    this.storage = storage;
    this.limits = {"client-name-characters": 64, "msg-bytes": 65536};
    this.identity = null;
    this.name = "";
    this.link = null;
    this.seen = null;  // the sequence to resume behind
    this.epoch = 0;  // a page of history that was asked for in another one is of another table
    this.paging = false;
    this.unread = 0;
    this.conversation = new Conversation({
      isOwn: message => message["client-name"] === this.name && (message.source === "wss" || !this.link?.verified),
      canPage: () => this.link?.ready === true && this.link.verified,
      onDetails: (message, verdict) => this.showDetails(message, verdict),
      onEarlier: () => this.loadEarlier(),
      onAgain: id => this.outbox.resend(id, this.name),
      onDiscard: id => this.outbox.discard(id),
    });
    this.outbox = new Outbox(storage, {
      onChanged: entry => this.conversation.showPending(entry),
      onGone: id => this.conversation.dropPending(id),
    });
    this.signatures = new Signatures((sequence, verdict) => this.conversation.judgeSequence(sequence, verdict));
    this.people = new People();
    this.forms = new Forms(this);
  }

  async start() {
    this.state("busy", "connecting…");
    const info = await this.fetchInfo();
    Object.assign(this.limits, info.limits);
    this.urls = info.wss?.enabled ? App.addresses(info.wss) : [];
    if (this.urls.length > 0 && !Keys.available()) return this.pointToTls();
    this.identity = (Keys.available() && await this.storage.get("identity").catch(() => null)) || null;
    this.name = await this.storage.get("name").catch(() => "") || "";
    this.forms.ready(this.urls.length > 0);
    if (this.name && (this.identity || this.urls.length === 0)) this.join(); else this.forms.welcome();
  }

  async fetchInfo() {
    for (;;) {
      try {
        const answer = await fetch("info", {cache: "no-store"});
        if (answer.ok) return await answer.json();
      } catch { /* again below */ }
      this.state("off", "the server can't be reached; trying again");
      await new Promise(resolve => setTimeout(resolve, App.kInfoAgainMs));
    }
  }

  // Where the chat may be, best first. A page that came by TLS tries its own origin too: it may be the ws-port itself, or a
  // balancer that passes TLS through.
  static addresses({url, port}) {
    const own = location.protocol === "https:" ? [`wss://${location.host}/ws`] : [];
    const told = url ? [App.atThisHost(url), ...own] : [...own, `wss://${location.hostname}:${port}/ws`];
    return [...new Set(told)];
  }

  // A loopback address is the server's word for "this machine": seen from a browser, the one that the page came from.
  static atThisHost(url) {
    const address = new URL(url);
    if (["localhost", "127.0.0.1", "[::1]"].includes(address.hostname)) address.hostname = location.hostname;
    return address.href;
  }

  // The page's address at the end that speaks TLS.
  static tlsOrigin(url) {
    const address = new URL(url);
    return `https://${address.host}/`;
  }

  pointToTls() {
    const origin = App.tlsOrigin(this.urls[0]);
    this.state("off", "not secure here");
    this.forms.notice("Messages are signed in your browser, and browsers do that only on pages that came by TLS. The chat is there:",
      {href: origin, text: origin});
  }

  state(kind, words) {
    const place = document.getElementById("state");
    place.dataset.kind = kind;
    place.textContent = words;
  }

  account() { return {identity: this.identity, name: this.name}; }

  // With this.name, and this.identity where there is WSS: from now on there is a link.
  join() {
    this.link?.stop();
    this.unlink();
    this.seen = null;
    ++this.epoch;
    this.conversation.clear();
    this.forms.chat();
    const handler = {
      onState: (kind, words) => this.state(kind, words),
      onReady: resuming => this.ready(resuming),
      onLost: () => this.unlink(),
      onRefusedName: (code, detail) => { this.unlink(); this.forms.welcome(Words.of(code, detail)); },
      onUnreachable: url => this.unreachable(url),
      onMessage: message => this.take(message, true),
      onResumed: through => { if (this.seen !== null) this.seen = Math.max(this.seen, through); },
      onAck: ack => this.acknowledged(ack),
      onRefused: (id, code, detail) => this.outbox.refused(id, code, detail),
      onReset: () => this.reset(),
      account: () => this.account(),
      lastSequence: () => this.seen,
    };
    this.link = this.urls.length > 0 ? new WsLink(this.urls, handler) : new HttpLink(handler);
    this.outbox.load().finally(() => this.link.start());
  }

  unlink() {
    this.outbox.use(null, this.name);
    this.signatures.use(null);
    this.people.use(null);
  }

  ready(resuming) {
    if (this.warned) this.forms.notice("");
    this.warned = false;
    this.signatures.use(this.link);
    this.outbox.use(this.link, this.name);
    this.people.use(this.link, this.name);
    if (this.link.verified) this.storage.set("name", this.name).catch(() => {});
    if (!resuming) this.loadNewest();
    else if (!this.link.verified) this.conversation.settled = true;
    this.conversation.refresh();
  }

  // The server's table was emptied or restored: nothing that was shown holds.
  reset() {
    this.seen = null;
    ++this.epoch;
    this.signatures.forget();
    this.conversation.clear();
    this.loadNewest();
  }

  async loadNewest() {
    const epoch = this.epoch;
    try {
      const page = await this.link.history(null, App.kPage);
      if (epoch !== this.epoch) return;
      this.conversation.addPage(page.messages, page.before);
      page.messages.forEach(message => this.arrived(message));
      this.seen = Math.max(this.seen ?? 0, page.messages.at(-1)?.sequence ?? 0);
      this.conversation.toEnd();
      this.conversation.pageIfNear();
    } catch (error) {
      this.state("off", error.message);
      // A connection that was lost comes back without anything seen, and then asks again.
      if (error.code !== undefined) setTimeout(() => { if (this.link.ready && this.seen === null) this.loadNewest(); }, 2000);
    }
  }

  async loadEarlier() {
    if (this.paging || this.conversation.before === null || !this.link?.ready) return;
    this.paging = true;
    const epoch = this.epoch;
    try {
      const page = await this.link.history(this.conversation.before, App.kPage);
      if (epoch !== this.epoch) return;
      this.conversation.addPage(page.messages, page.before);
      page.messages.forEach(message => this.arrived(message));
    } catch (error) {
      if (error.code !== undefined) await new Promise(resolve => setTimeout(resolve, 1000));
    } finally {
      this.paging = false;
    }
    this.conversation.pageIfNear();
  }

  take(message, live) {
    // Before the newest page is there, what to resume behind is not known.
    if (live && (this.seen !== null)) this.seen = Math.max(this.seen, message.sequence);
    if (this.conversation.add(message)) this.arrived(message);
    if (!this.link.verified || document.hasFocus() || this.conversation.handler.isOwn(message)) return;
    ++this.unread;
    document.title = `(${this.unread}) dlb chat`;
  }

  // For each message that came to be shown.
  arrived(message) {
    this.outbox.done(message["message-id"]);
    this.signatures.check(message);
    if (message.source === "wss") this.people.heardOf(message["client-name"]);
  }

  // Shown as soon as it is stored; if the broadcast was faster, it is there already.
  acknowledged(ack) {
    const entry = this.outbox.done(ack["message-id"]);
    if (!entry || this.conversation.has(entry.id)) return;
    const source = this.link.verified ? "wss" : "http";
    this.take({"message-id": entry.id, "client-name": entry.name, msg: entry.text, timestamp: ack.timestamp, sequence: ack.sequence,
      source, signature: entry.signature}, false);
  }

  unreachable(url) {
    const origin = App.tlsOrigin(url);
    if (origin === `${location.origin}/`) return;
    this.warned = true;
    this.forms.notice("The chat's server doesn't answer this browser. If its certificate is self-made, open this address once and " +
      "accept it; the page is there too:", {href: origin, text: origin},
      {text: "Write unsigned, by HTTP", run: () => { this.urls = []; this.forms.ready(false); this.join(); this.forms.notice(""); }});
  }

  async showDetails(message, verdict) {
    const facts = [["Name", message["client-name"]], ["Sent", new Date(message.timestamp).toLocaleString()],
      ["Number", message.sequence], ["Id", message["message-id"]]];
    if (verdict === "signed" || verdict === "bad") {
      const found = await this.signatures.keys.get(message["client-name"])?.catch(() => null);
      if (found) facts.push(["Fingerprint of the key", found.fingerprint]);
    }
    this.forms.details(Conversation.verdicts[verdict], facts);
  }

  focused() {
    this.unread = 0;
    document.title = "dlb chat";
    this.link?.hurry();
  }

  // Browsers keep a page that was left, with its socket, in case its reader comes back: meanwhile nobody is here.
  leave() {
    this.left = this.link?.verified === true && this.link.state !== "stopped";
    if (!this.left) return;
    this.link.stop();
    this.unlink();
  }

  comeBack() {
    if (this.left) this.link.start();
    this.left = false;
  }
}

PageStorage.open().then(storage => {
  const app = new App(storage);
  addEventListener("focus", () => app.focused());
  addEventListener("online", () => app.link?.hurry());
  addEventListener("pagehide", () => app.leave());
  addEventListener("pageshow", event => { if (event.persisted) app.comeBack(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) app.focused(); });
  app.start();
});
