// History: the samples that the charts show and the changes that the list shows, from one snapshot to the next. Bounded: five
// minutes of samples, kChanges changes. Knows nothing of the page.

const States = {
  ready: {kind: "good", sign: "●", text: "healthy"},
  starting: {kind: "wait", sign: "○", text: "starting"},
  down: {kind: "bad", sign: "✕", text: "unhealthy"},
  draining: {kind: "wait", sign: "◒", text: "draining"},
  maintenance: {kind: "wait", sign: "◒", text: "maintenance"},
  ejected: {kind: "bad", sign: "▲", text: "ejected"},
  probation: {kind: "warn", sign: "◐", text: "on probation"},
  stalled: {kind: "bad", sign: "◇", text: "answers nothing"},
  memory: {kind: "warn", sign: "■", text: "memory guard"},
};

const stateOf = backend => States[backend.state] ?? {kind: "wait", sign: "○", text: backend.state};

class History {
  static kSeconds = 300;
  static kShareSeconds = 10;
  static kChanges = 100;

  constructor() {
    this.samples = [];  // {at, requests, failed, p50, p95, p99, of: {backend id: requests}}
    this.changes = [];  // {at, who, what, kind}, the newest first
    this.last = null;
  }

  // Takes a snapshot in.
  add(snapshot) {
    const at = Date.parse(snapshot.time);
    const before = this.last;
    if (before !== null && before.pid !== snapshot.pid) {
      this.note(at, "balancer", `another process serves: ${before.pid} → ${snapshot.pid}`, "wait");
      this.samples = [];
    }
    const {p50, p95, p99} = snapshot.latency_ms;
    const of = {};
    for (const backend of snapshot.backends) of[backend.id] = backend.counters.requests;
    const {success, failed} = snapshot.requests;
    this.samples.push({at, requests: success + failed, failed, p50, p95, p99, of});
    while (this.samples.length > 0 && (at - this.samples[0].at > (History.kSeconds + 2) * 1000 || this.samples[0].at > at)) {
      this.samples.shift();
    }
    if (before !== null) this.compare(at, before, snapshot);
    this.last = snapshot;
  }

  compare(at, before, now) {
    const changed = (key, what, kind) => {
      if (before[key] !== now[key]) this.note(at, "balancer", what(now[key]), kind(now[key]));
    };
    changed("panic", on => on ? "panic: no backend is healthy, all are used" : "panic is over", on => on ? "bad" : "good");
    changed("draining", on => on ? "draining" : "serves again", () => "wait");
    changed("memory_guard_reason", why => why === "none" ? "memory guard off" : `memory guard on: ${why}`,
      why => why === "none" ? "good" : "bad");
    changed("generation", number => `configuration ${number} is in force`, () => "wait");
    const known = new Map(before.backends.map(backend => [backend.id, backend]));
    for (const backend of now.backends) {
      const old = known.get(backend.id);
      known.delete(backend.id);
      if (old === undefined) {
        this.note(at, backend.id, "configured", "wait");
        continue;
      }
      if (old.state !== backend.state) {
        const why = backend.state === "down" && backend.last_error !== null ? `: ${backend.last_error.text}` : "";
        this.note(at, backend.id, `${stateOf(old).text} → ${stateOf(backend).text}${why}`, stateOf(backend).kind);
      }
      if (old.weight !== backend.weight) this.note(at, backend.id, `weight ${old.weight} → ${backend.weight}`, "wait");
      if (old.statistics_stale !== backend.statistics_stale) {
        this.note(at, backend.id, backend.statistics_stale ? "statistics are stale" : "statistics are back",
          backend.statistics_stale ? "warn" : "good");
      }
    }
    for (const id of known.keys()) this.note(at, id, "no longer configured", "wait");
  }

  note(at, who, what, kind) {
    this.changes.unshift({at, who, what, kind});
    this.changes.length = Math.min(this.changes.length, History.kChanges);
  }

  // Per second between neighbouring samples: [{at, requests, failed, p50, …}]; nothing where one was missed for long.
  rates() {
    const out = [];
    for (let i = 1; i < this.samples.length; ++i) {
      const before = this.samples[i - 1], now = this.samples[i], seconds = (now.at - before.at) / 1000;
      if (seconds <= 0) continue;
      const gap = seconds > 5;
      out.push({
        at: now.at,
        requests: gap ? null : Math.max(0, now.requests - before.requests) / seconds,
        failed: gap ? null : Math.max(0, now.failed - before.failed) / seconds,
        p50: now.p50, p95: now.p95, p99: now.p99,
      });
    }
    return out;
  }

  // What each backend got over the last seconds: {id: {rate, share}}; share is null while nobody gets anything.
  shares() {
    const now = this.samples.at(-1);
    const before = this.samples.find(sample => now.at - sample.at <= History.kShareSeconds * 1000);
    const seconds = Math.max(0.001, (now.at - before.at) / 1000);
    const got = id => Math.max(0, now.of[id] - (before.of[id] ?? 0));
    const ids = Object.keys(now.of);
    const total = ids.reduce((sum, id) => sum + got(id), 0);
    return Object.fromEntries(ids.map(id =>
      [id, {rate: before === now ? 0 : got(id) / seconds, share: total > 0 && before !== now ? got(id) / total : null}]));
  }
}
