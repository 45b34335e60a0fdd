// The link to the server by WebSocket, TLS below it: one session after the other until stop().
//
//   waiting ──0-5 s, at random──▶ connecting ──open──▶ registering ──registered──▶ ready ──lost──▶ waiting
//                                                           └──the name or key is refused──▶ stopped
//
// What is asked of the server (history, users, keys) is asked one at a time, so that an error without a message-id belongs
// to what is being asked. A silent server is pinged, since a browser is not told of a connection that has died. `handler`
// gets: onState(kind, words), onReady(resuming), onRefusedName(code, detail), onUnreachable(url), onMessage(message),
// onAck(ack), onRefused(id, code, detail), onReset(), onLost(). `account()` gives {identity, name}; `lastSequence()` what
// to resume behind, or null for "nothing was seen yet".

class WsLink {
  static kMaxWaitMs = 5000;  // at random, so that a restarted server does not meet all its clients in one moment
  static kConnectMs = 10000;
  static kSilenceMs = 30000;
  static kPongMs = 10000;
  static kAskMs = 15000;

  constructor(urls, handler) {
    this.urls = urls;  // tried in turn until one has worked, which then is the one
    this.handler = handler;
    this.turn = 0;
    this.failures = 0;
    this.everReady = false;
    this.state = "stopped";
    this.asked = [];  // {message, answer, resolve, reject}; the first one is on its way when `asking`
    this.asking = false;
    this.verified = true;
  }

  get ready() { return this.state === "ready"; }
  get url() { return this.urls[this.turn % this.urls.length]; }

  start() {
    this.stop();
    this.watch = setInterval(() => this.look(), 2000);
    this.connect();
  }

  stop() {
    clearInterval(this.watch);
    this.drop();
    this.state = "stopped";
  }

  // The network is back, or a person is impatient.
  hurry() {
    if (this.state === "waiting") this.connect();
    if (this.state === "ready") this.ping();
  }

  connect() {
    this.drop();
    this.state = "connecting";
    this.since = this.heard = performance.now();
    this.handler.onState("busy", this.everReady ? "connecting again…" : "connecting…");
    let socket;
    try {
      socket = new WebSocket(this.url);
    } catch {
      this.lost();
      return;
    }
    this.socket = socket;
    const current = () => this.socket === socket;
    socket.onopen = () => { if (current()) this.register(); };
    socket.onmessage = event => { if (current()) this.take(event.data); };
    socket.onclose = event => { if (current()) this.lost(event.code); };
  }

  // Ends the socket without waiting for the other side.
  drop() {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    this.pinged = 0;
    if (socket) socket.close();
    const asked = this.asked;
    this.asked = [];
    this.asking = false;
    for (const one of asked) one.reject(new Error("The connection was lost."));
  }

  lost(code) {
    const wasReady = this.state === "ready";
    this.drop();
    if (!wasReady) {
      ++this.failures;
      if (!this.everReady) ++this.turn;
    }
    this.state = "waiting";
    const wait = Math.random() * WsLink.kMaxWaitMs;
    const why = code === 1001 ? "the server restarts" : code === 1013 ? "the connection was too slow" : "no connection";
    this.handler.onState("off", `${why}; trying again`);
    if (wasReady) this.handler.onLost();
    if (!this.everReady && this.failures === Math.max(2, this.urls.length)) this.handler.onUnreachable(this.url);
    this.timer = setTimeout(() => this.connect(), wait);
  }

  async register() {
    const socket = this.socket, {identity, name} = this.handler.account();
    this.state = "registering";
    const timestamp = new Date().toISOString();
    const signature = await Keys.sign(identity, await Keys.registerParts(identity, name, timestamp));
    if (this.socket !== socket) return;
    const after = this.handler.lastSequence();
    const message = {type: "register", username: name, public_key: identity.spki, timestamp, signature};
    if (after !== null) message.after_sequence = after;
    this.ask(message, "registered").then(() => {
      this.state = "ready";
      this.everReady = true;
      this.failures = 0;
      this.handler.onState("ok", "connected");
      this.handler.onReady(after !== null);
    }, error => {
      if (this.socket !== socket) return;
      if (error.code === undefined || Words.passing.has(error.code)) {
        this.lost();
      } else {
        this.stop();
        this.handler.onState("off", "not joined");
        this.handler.onRefusedName(error.code, error.detail);
      }
    });
  }

  // The answer of type `answer` to `message`; rejects with an Error, which has `code` and `detail` if the server sent it.
  ask(message, answer) {
    return new Promise((resolve, reject) => {
      this.asked.push({message, answer, resolve, reject});
      this.askNext();
    });
  }

  askNext() {
    if (this.asking || this.asked.length === 0 || !this.socket) return;
    this.asking = true;
    this.askedAt = performance.now();
    this.say(this.asked[0].message);
  }

  answered(settle) {
    const [one] = this.asked.splice(0, 1);
    this.asking = false;
    settle(one);
    this.askNext();
  }

  say(message) { this.socket.send(JSON.stringify(message)); }

  take(text) {
    this.heard = performance.now();
    this.pinged = 0;
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    switch (message.type) {
      case "message": return this.handler.onMessage(message.message);
      case "ack": return this.handler.onAck(message);
      case "reset": return this.handler.onReset();
      case "resumed": return this.handler.onResumed(message.through_sequence);
      case "error": return this.takeError(message);
      default:
        if (this.asking && this.asked[0].answer === message.type) this.answered(one => one.resolve(message));
    }
  }

  takeError(message) {
    if (message["message-id"] !== undefined) {
      this.handler.onRefused(message["message-id"], message.code, message.detail);
    } else if (this.asking) {
      const error = Object.assign(new Error(Words.of(message.code, message.detail)), {code: message.code, detail: message.detail});
      this.answered(one => one.reject(error));
    }
    if (message.code === "not_registered" && this.ready) this.lost();
  }

  // Every two seconds: what should have come by now?
  look() {
    const now = performance.now();
    if (this.state === "connecting" || this.state === "registering") {
      if (now - this.since > WsLink.kConnectMs) this.lost();
    } else if (this.state === "ready") {
      if (this.pinged && now - this.pinged > WsLink.kPongMs) this.lost();
      else if (this.asking && now - this.askedAt > WsLink.kAskMs) this.lost();
      else if (now - this.heard > WsLink.kSilenceMs) this.ping();
    }
  }

  ping() {
    if (this.pinged) return;
    this.pinged = performance.now();
    this.say({type: "ping"});
  }

  // --- what the chat asks for

  async post(entry) {
    const socket = this.socket, {identity, name} = this.handler.account();
    const signature = await Keys.sign(identity, Keys.messageParts(name, entry.id, entry.text));
    if (this.socket !== socket || !this.ready) return;
    entry.signature = signature;
    this.say({type: "message", "message-id": entry.id, msg: entry.text, signature});
  }

  async history(before, limit) {
    const page = await this.ask({type: "load_history", limit, ...(before === null ? {} : {before_sequence: before})}, "history");
    return {messages: page.messages, before: page.has_more ? page.next_before_sequence : null};
  }

  async users() { return (await this.ask({type: "users"}, "users")).online; }

  // The public key of a name, base64; null when nobody has the name.
  async keyOf(name) {
    try {
      return (await this.ask({type: "key", username: name}, "key")).public_key ?? null;
    } catch (error) {
      if (error.code === undefined || Words.passing.has(error.code)) throw error;
      return null;
    }
  }
}
