// Who is online, and whose signatures are good: both are asked of the server through the link.

// The signatures of messages, checked here with keys that the server tells. A name has one key for ever, so a key is asked
// for once; names that nobody has are asked for again after a while.
class Signatures {
  static kMostKeys = 2000;

  constructor(onVerdict) {
    this.onVerdict = onVerdict;  // (sequence, verdict)
    this.link = null;
    this.keys = new Map();  // name → Promise of {key, fingerprint} or null
    this.unchecked = new Map();  // sequence → message: waits for a link that tells keys
  }

  use(link) {
    this.link = link;
    if (!link) return;
    const waiting = [...this.unchecked.values()];
    this.unchecked.clear();
    waiting.forEach(message => this.check(message));
  }

  forget() {
    this.keys.clear();
    this.unchecked.clear();
  }

  keyOf(name) {
    let known = this.keys.get(name);
    if (!known) {
      if (this.keys.size >= Signatures.kMostKeys) this.keys.delete(this.keys.keys().next().value);
      known = this.link.keyOf(name).then(async spki => {
        if (spki === null) return null;
        return {key: await Keys.importPublic(spki), fingerprint: await Keys.fingerprint(spki)};
      });
      this.keys.set(name, known);
      known.then(found => { if (found === null) this.keys.delete(name); }, () => this.keys.delete(name));
    }
    return known;
  }

  async check(message) {
    if (message.source !== "wss" || !message.signature || message.msg === null) return;
    if (!this.link?.verified) {
      this.unchecked.set(message.sequence, message);
      this.onVerdict(message.sequence, "unchecked");
      return;
    }
    const name = message["client-name"];
    try {
      const found = await this.keyOf(name);
      if (found === null) return this.onVerdict(message.sequence, "unchecked");
      const parts = Keys.messageParts(name, message["message-id"], message.msg);
      this.onVerdict(message.sequence, await Keys.verify(found.key, parts, message.signature) ? "signed" : "bad");
    } catch {
      this.unchecked.set(message.sequence, message);  // the connection was lost: later
    }
  }
}

// The list of those online, asked for now and then, and its two places on the page.
class People {
  static kEveryMs = 15000;

  constructor() {
    this.button = document.getElementById("open-people");
    this.count = document.getElementById("people-count");
    this.lists = [document.getElementById("people-side"), document.getElementById("people-dialog")];
    this.side = document.getElementById("side");
  }

  use(link, ownName) {
    clearInterval(this.timer);
    this.link = link;
    this.ownName = ownName;
    if (!link) return;
    this.timer = setInterval(() => { if (!document.hidden) this.ask(); }, People.kEveryMs);
    this.ask();
  }

  async ask() {
    try {
      const names = await this.link?.users();
      if (Array.isArray(names)) this.show(names);
    } catch { /* the next time */ }
  }

  // Somebody has written: if the list doesn't have them, it is old.
  heardOf(name) {
    if (this.names && !this.names.includes(name) && !this.soon) {
      this.soon = setTimeout(() => { this.soon = 0; this.ask(); }, 1000);
    }
  }

  show(names) {
    this.names = names;
    this.button.hidden = this.side.hidden = false;
    this.count.textContent = names.length;
    for (const list of this.lists) {
      list.replaceChildren(...names.map(name => {
        const item = element("li", `hue-${Words.hue(name)}`), text = element("span", "who", name);
        text.dir = "auto";
        item.append(text);
        if (name === this.ownName) item.append(element("span", "hint", " (you)"));
        return item;
      }));
    }
  }
}
