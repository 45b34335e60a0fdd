// Stream: the snapshots of /lb/events, for as long as the page is open. By EventSource; where the listener asks for a token,
// which an EventSource can't send, by fetch. A connection that ends, or says nothing for kSilentMs, is made again.
//
//   connecting ──snapshot──▶ live ──end, error, silence──▶ lost (since when, and why) ──kRetryMs──▶ connecting
//                              401 ──▶ token: waits for setToken()

class Stream {
  static kRetryMs = 1000;
  static kSilentMs = 4000;
  static kMaxText = 8 << 20;  // of one event

  // onSnapshot(object); onState("live" | "lost" | "token", why).
  constructor(needsToken, {onSnapshot, onState}) {
    this.needsToken = needsToken;
    this.token = null;
    this.onSnapshot = onSnapshot;
    this.onState = onState;
    this.attempt = 0;  // what an earlier one still says is not heard
  }

  headers() {
    return this.token === null ? {} : {Authorization: `Bearer ${this.token}`};
  }

  setToken(token) {
    this.token = token;
    this.open();
  }

  open() {
    this.close();
    if (this.needsToken && this.token === null) return this.onState("token", "");
    const attempt = ++this.attempt;
    const current = () => attempt === this.attempt;
    const take = text => {
      if (!current()) return;
      this.watch();
      this.onState("live", "");
      this.onSnapshot(JSON.parse(text));
    };
    this.watch();
    if (this.needsToken) {
      this.readByFetch(take).catch(error => error.message).then(why => current() && this.lose(why));
      return;
    }
    this.source = new EventSource("/lb/events");
    this.source.onmessage = event => take(event.data);
    this.source.onerror = () => current() && this.lose("");
  }

  close() {
    ++this.attempt;
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
    this.abort?.abort();
    this.abort = null;
  }

  watch() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.lose("It says nothing."), Stream.kSilentMs);
  }

  async lose(why) {
    this.close();
    const attempt = this.attempt;
    this.timer = setTimeout(() => this.open(), Stream.kRetryMs);
    this.onState("lost", why);
    if (why !== "") return;
    const reason = await this.reason();
    if (attempt === this.attempt) this.onState("lost", reason);
  }

  // An EventSource keeps to itself what it was answered.
  async reason() {
    try {
      const head = await fetch("/lb/events", {method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(2000)});
      return Stream.meaning(head.status);
    } catch {
      return "The balancer does not answer.";
    }
  }

  static meaning(status) {
    if (status === 503) return "It has as many readers as it takes, or is draining.";
    if (status === 404) return "This listener does not serve /lb/events (any more).";
    return status === 200 ? "" : `It answered ${status}.`;
  }

  // Returns why it ended.
  async readByFetch(take) {
    this.abort = new AbortController();
    const response = await fetch("/lb/events", {headers: this.headers(), cache: "no-store", signal: this.abort.signal});
    if (response.status === 401) {
      this.token = null;
      this.close();
      this.onState("token", "The token was not accepted.");
      return "";
    }
    if (!response.ok) return Stream.meaning(response.status);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return "It closed the connection.";
      text += value;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        const data = text.slice(0, end).split("\n").find(line => line.startsWith("data: "));
        if (data) take(data.slice(6));
      }
      if (text.length > Stream.kMaxText) return "It sends what is no event.";
    }
  }
}
