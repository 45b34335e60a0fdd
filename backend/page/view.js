// The conversation as people see it: messages in the order of their sequence, each once, and what is still to be delivered
// below them. Text of others is only ever put in by textContent, never as markup. Keeps the newest part when it grows long.

const element = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

class Conversation {
  static kMost = 1000;  // messages on the page; over it the oldest go, down to kKept, and can be paged back in
  static kKept = 600;
  static kNearPx = 80;  // this near to the end counts as being there
  static kRunMs = 5 * 60 * 1000;  // messages of one person within this time stand together

  constructor(handler) {
    this.handler = handler;  // isOwn(message), onDetails(message, mark), onEarlier(), onAgain(id), onDiscard(id)
    this.scroller = document.getElementById("scroller");
    this.log = document.getElementById("log");
    this.outbox = document.getElementById("outbox");
    this.earlier = document.getElementById("earlier");
    this.newest = document.getElementById("newest");
    this.empty = document.getElementById("empty");
    this.shown = new Map();  // sequence → {message, item, mark}
    this.ids = new Map();  // message-id → sequence
    this.before = null;  // where the next page upward begins; null: there is none
    this.atEnd = true;
    this.settled = false;  // the newest page has come

    this.scroller.addEventListener("scroll", () => this.scrolled(), {passive: true});
    this.earlier.addEventListener("click", () => this.handler.onEarlier());
    this.newest.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => { if (this.atEnd) this.toEnd(); }).observe(this.scroller);
  }

  has(id) { return this.ids.has(id); }

  clear() {
    this.shown.clear();
    this.ids.clear();
    this.log.replaceChildren();
    this.before = null;
    this.settled = false;
    this.refresh();
  }

  // True when it is new here.
  add(message) {
    if (this.shown.has(message.sequence)) return false;
    const follows = this.atEnd || this.handler.isOwn(message);
    this.insert(message);
    if (this.shown.size > Conversation.kMost && this.atEnd) this.trim();
    this.refresh();
    if (follows) this.toEnd();
    else this.newest.hidden = false;
    return true;
  }

  // A page of history; the reader keeps looking at what was there before.
  addPage(messages, before) {
    const fromEnd = this.scroller.scrollHeight - this.scroller.scrollTop;
    this.log.setAttribute("aria-busy", "true");
    for (const message of messages) if (!this.shown.has(message.sequence)) this.insert(message);
    this.log.removeAttribute("aria-busy");
    this.before = before;
    this.settled = true;
    this.refresh();
    if (this.atEnd) this.toEnd();
    else this.scroller.scrollTop = this.scroller.scrollHeight - fromEnd;
  }

  insert(message) {
    const entry = this.make(message);
    let next = null, last = this.log.lastElementChild;
    while (last && Number(last.dataset.sequence) > message.sequence) {
      next = last;
      last = last.previousElementSibling;
    }
    this.log.insertBefore(entry.item, next);
    this.shown.set(message.sequence, entry);
    this.ids.set(message["message-id"], message.sequence);
    this.join(entry.item);
    if (next) this.join(next);
  }

  make(message) {
    const item = element("li", `message hue-${Words.hue(message["client-name"])}`);
    item.dataset.sequence = message.sequence;
    if (this.handler.isOwn(message)) item.classList.add("own");
    const when = new Date(message.timestamp);
    const day = element("p", "day", Words.day(when));
    const who = element("span", "who", message["client-name"]);
    const what = element("p", "what", message.msg ?? "This message can't be decrypted.");
    if (message.msg === null) item.classList.add("undecryptable");
    const time = element("time", "", Words.time(when));
    time.dateTime = message.timestamp;
    time.title = when.toLocaleString();
    const mark = element("button", "mark");
    mark.type = "button";
    const entry = {message, item, mark, verdict: ""};
    mark.addEventListener("click", () => this.handler.onDetails(message, entry.verdict));
    who.dir = what.dir = "auto";
    const foot = element("p", "foot");
    foot.append(mark, time);
    const bubble = element("div", "bubble");
    bubble.append(who, what, foot);
    item.append(day, bubble);
    this.judge(entry, message.source !== "wss" || !message.signature ? "unsigned" : "checking");
    return entry;
  }

  // Shows under a new day a date, and leaves the name out where the same person goes on.
  join(item) {
    const message = this.shown.get(Number(item.dataset.sequence)).message;
    const before = this.shown.get(Number(item.previousElementSibling?.dataset.sequence))?.message;
    const day = new Date(message.timestamp).toDateString();
    const newDay = before === undefined || new Date(before.timestamp).toDateString() !== day;
    const goesOn = !newDay && before["client-name"] === message["client-name"] && before.source === message.source &&
      Math.abs(new Date(message.timestamp) - new Date(before.timestamp)) < Conversation.kRunMs;
    item.classList.toggle("new-day", newDay);
    item.classList.toggle("goes-on", goesOn);
  }

  static verdicts = {
    signed: ["✓ signed", "Signed: this page has checked the signature"],
    own: ["✓ signed", "Signed with your key"],
    unsigned: ["unsigned", "Unsigned: it came by HTTP, under a name that anyone may write"],
    checking: ["signed…", "Signed; the signature is being checked"],
    unchecked: ["signed?", "Signed, but the signature can't be checked here"],
    bad: ["✗ bad signature", "The signature does not fit: this is not what the owner of the name signed"],
  };

  judge(entry, verdict) {
    const [text, title] = Conversation.verdicts[verdict];
    entry.verdict = verdict;
    entry.mark.textContent = text;
    entry.mark.title = title;
    entry.mark.setAttribute("aria-label", title);
    entry.item.dataset.verdict = verdict;
    if (verdict === "bad") entry.item.classList.remove("own");  // whoever wrote it
  }

  // The verdict on a message that is still shown.
  judgeSequence(sequence, verdict) {
    const entry = this.shown.get(sequence);
    if (entry) this.judge(entry, verdict);
  }

  trim() {
    const sequences = [...this.shown.keys()].sort((a, b) => a - b);
    for (const sequence of sequences.slice(0, sequences.length - Conversation.kKept)) {
      const entry = this.shown.get(sequence);
      entry.item.remove();
      this.shown.delete(sequence);
      this.ids.delete(entry.message["message-id"]);
    }
    this.join(this.log.firstElementChild);
    this.before = Number(this.log.firstElementChild.dataset.sequence);
  }

  refresh() {
    this.earlier.hidden = this.before === null || !this.handler.canPage();
    this.empty.hidden = !this.settled || this.shown.size > 0 || this.outbox.childElementCount > 0;
  }

  scrolled() {
    const left = this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
    this.atEnd = left < Conversation.kNearPx;
    if (this.atEnd) this.newest.hidden = true;
    this.pageIfNear();
  }

  pageIfNear() {
    if (!this.earlier.hidden && this.scroller.scrollTop < 300) this.handler.onEarlier();
  }

  toEnd() {
    this.atEnd = true;
    this.newest.hidden = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  // --- what has not been delivered

  showPending(entry) {
    let item = document.getElementById(`pending-${entry.id}`);
    if (!item) {
      item = element("li", "message own pending");
      item.id = `pending-${entry.id}`;
      const bubble = element("div", "bubble");
      const what = element("p", "what", entry.text);
      what.dir = "auto";
      bubble.append(what, element("p", "foot"), element("p", "actions"));
      item.append(bubble);
      this.outbox.append(item);
    }
    const failed = entry.state === "failed";
    item.classList.toggle("failed", failed);
    item.querySelector(".foot").textContent = failed ? `Not delivered. ${entry.why}` : entry.why || "sending…";
    const actions = item.querySelector(".actions");
    if (failed && actions.childElementCount === 0) {
      const again = element("button", "", "Send again"), discard = element("button", "", "Discard");
      again.type = discard.type = "button";
      again.addEventListener("click", () => this.handler.onAgain(entry.id));
      discard.addEventListener("click", () => this.handler.onDiscard(entry.id));
      actions.append(again, discard);
    } else if (!failed) {
      actions.replaceChildren();
    }
    this.refresh();
    if (this.atEnd) this.toEnd();
  }

  dropPending(id) {
    document.getElementById(`pending-${id}`)?.remove();
    this.refresh();
    if (this.atEnd) this.toEnd();
  }
}
