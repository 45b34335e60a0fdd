// The dashboard: the figures of the balancer, live from /lb/events; where the admin listener serves it, the buttons too. The
// server says so in data-actions of the document: none (public), open (admin), token (admin, behind a token).

const kTiles = [
  ["rate", "Requests/s", (s, r) => [Words.number(r?.requests ?? 0), `${Words.count(s.requests.total)} in all`]],
  ["p50", "p50", s => [Words.ms(s.latency_ms.p50), "half of them"]],
  ["p95", "p95", s => [Words.ms(s.latency_ms.p95), "19 of 20"]],
  ["p99", "p99", s => [Words.ms(s.latency_ms.p99), "99 of 100"]],
  ["running", "In flight", s => [Words.count(s.requests.in_progress), `${Words.count(s.queue.waiting)} in the queue`]],
  ["errors", "Failed", s => [Words.count(s.requests.failed), `${Words.count(s.backend_errors.total)} at backends`],
    (s, r) => (r?.failed ?? 0) > 0 ? "bad" : ""],
  ["retries", "Retries", s => [Words.count(s.routing.retries), `${Words.count(s.routing.fallbacks)} fallbacks`]],
  ["ejections", "Ejections", s => [Words.count(s.ejections.total), `${s.ejections.now} now`], s => s.ejections.now > 0 ? "bad" : ""],
  ["refused", "Refused", s => [Words.count(Object.values(s.rejections).reduce((a, b) => a + b, 0)), "by limits"]],
  ["cpu", "Sys1 CPU", s => [Words.percent(s.sys1.cpu_percent), `load ${s.sys1.load_1m.toFixed(2)}`]],
  ["memory", "Sys1 memory", s => [Words.percent(s.memory_guard.unreclaimable_percent),
    `guard ${s.memory_guard.on ? "ON" : "off"} (${s.lb_max_memory} %)`], s => s.memory_guard.on ? "bad" : ""],
  ["sockets", "Process", s => [Words.bytes(s.sys1.rss_bytes), `sockets ${Words.bytes(s.memory_guard.socket_bytes)}`]],
];

class Dashboard {
  constructor(mode) {
    this.history = new History();
    this.stream = new Stream(mode === "token", {
      onSnapshot: snapshot => this.show(snapshot),
      onState: (state, why) => this.showLink(state, why),
    });
    this.backends = new Backends(mode === "none" ? null : {
      setDrain: (id, to) => this.setDrain(id, to),
      setWeight: (id, value) => this.act(id, `weight?value=${value}`, `weight ${value}`),
    });
    this.lostSince = null;
    this.makeTiles();
    this.throughput = new Chart(byId("throughput"), byId("throughput-legend"), [
      {key: "requests", name: "answered", kind: "one"}, {key: "failed", name: "of them failed", kind: "bad"},
    ], {label: "Requests per second over the last five minutes", format: Words.number});
    this.latency = new Chart(byId("latency"), byId("latency-legend"), [
      {key: "p50", name: "p50", kind: "one"}, {key: "p95", name: "p95", kind: "two"}, {key: "p99", name: "p99", kind: "three"},
    ], {label: "Latency percentiles over the last five minutes", format: value => value === null ? "–" : Words.ms(value)});
    byId("token-form").addEventListener("submit", event => {
      event.preventDefault();
      this.stream.setToken(byId("token").value);
      byId("token").value = "";
    });
  }

  start() {
    this.showChanges();
    this.stream.open();
  }

  makeTiles() {
    this.tiles = kTiles.map(([key, title, values, kind]) => {
      const value = element("b", {class: "value"}, "–"), note = element("span", {class: "soft"});
      const tile = element("div", {class: "tile", id: `tile-${key}`}, element("span", {class: "label"}, title), value, note);
      byId("tiles").append(tile);
      return {tile, value, note, values, kind};
    });
  }

  show(snapshot) {
    this.history.add(snapshot);
    const rates = this.history.rates(), rate = rates.at(-1);
    for (const {tile, value, note, values, kind} of this.tiles) {
      const [figure, remark] = values(snapshot, rate);
      setText(value, figure);
      setText(note, remark);
      setData(tile, "kind", kind?.(snapshot, rate) ?? "");
    }
    this.showOverall(snapshot);
    this.backends.show(snapshot, this.history.shares());
    if (!document.hidden) {
      this.throughput.show(rates);
      this.latency.show(rates);
    }
    this.showChanges();
  }

  showOverall(snapshot) {
    const total = snapshot.backends.length, well = snapshot.backends.filter(one => one.state === "ready").length;
    const kinds = {ok: well === total ? ["good", "● all well"] : ["warn", `▲ ${well} of ${total} healthy`],
      draining: ["wait", "◒ draining"], unavailable: ["bad", "✕ no backend"]};
    const [kind, text] = snapshot.panic ? ["bad", "✕ panic"] : kinds[snapshot.status] ?? ["wait", snapshot.status];
    setText(byId("overall"), text);
    setData(byId("overall"), "kind", kind);
    setText(byId("facts"), `policy ${snapshot.policy} · configuration ${snapshot.generation} · ${snapshot.version} · up ` +
      Words.span(snapshot.uptime_seconds));
    document.title = `${text} – dlb`;
    const warnings = [];
    if (snapshot.panic) warnings.push("Panic: every backend fails its checks; those that take connections are used all the same.");
    if (snapshot.memory_guard.on) warnings.push(`The memory guard is on (${snapshot.memory_guard_reason}): new requests get 503.`);
    if (snapshot.draining) warnings.push("This balancer drains: it will end when what runs is done.");
    if (snapshot.predecessor_drains) warnings.push("The process that was upgraded still drains.");
    byId("warnings").hidden = warnings.length === 0;
    setText(byId("warnings"), warnings.join(" "));
  }

  showLink(state, why) {
    if (state === "lost" && this.lostSince === null) {
      this.lostSince = new Date();
      this.history.note(this.lostSince.getTime(), "this page", "not connected", "bad");
      this.showChanges();
    } else if (state === "live" && this.lostSince !== null) {
      this.history.note(Date.now(), "this page", "connected again", "good");
      this.lostSince = null;
    }
    const since = this.lostSince === null ? "" : `not connected since ${Words.clock(this.lostSince)}`;
    const words = {live: ["good", "● live"], lost: ["bad", `✕ ${since}`], token: ["wait", "○ waiting for the token"]}[state];
    setText(byId("link"), words[1]);
    setData(byId("link"), "kind", words[0]);
    setData(document.body, "link", state);
    byId("lost").hidden = state !== "lost";
    setText(byId("lost-since"), since === "" ? "" : `${since[0].toUpperCase()}${since.slice(1)}.`);
    setText(byId("lost-why"), state === "lost" ? `${why} The figures below are the last that came; trying again each second.` : "");
    byId("token-form").hidden = state !== "token";
    setText(byId("token-error"), state === "token" ? why : "");
    if (state === "lost") document.title = "✕ not connected – dlb";
  }

  showChanges() {
    const changes = this.history.changes;
    if (changes[0] === this.shown && this.shown !== undefined) return;
    this.shown = changes[0];
    const rows = changes.map(({at, who, what, kind}) => element("li", {"data-kind": kind},
      element("time", {datetime: new Date(at).toISOString()}, Words.clock(new Date(at))), element("b", {}, who), element("span", {}, what)));
    byId("events").replaceChildren(...(rows.length > 0 ? rows : [element("li", {class: "soft"}, "No change yet.")]));
  }

  // --- changes of state

  setDrain(id, to) {
    const others = this.history.last.backends.filter(one => one.id !== id && one.state === "ready");
    if (to === "drain" && others.length === 0 && !confirm(`No other backend is healthy. Drain ${id} all the same?`)) return;
    this.act(id, to, to === "drain" ? "drain" : "ready");
  }

  async act(id, action, what) {
    const state = byId("action-state");
    setText(state, `${id}: ${what} …`);
    try {
      const response = await fetch(`/lb/backends/${encodeURIComponent(id)}/${action}`,
        {method: "POST", headers: this.stream.headers(), signal: AbortSignal.timeout(5000)});
      const body = await response.json();
      setText(state, response.ok ? `${id}: ${what} – done` : `${id}: ${what} was refused: ${body.detail}`);
    } catch (error) {
      setText(state, `${id}: ${what} failed: ${error.message}`);
    }
  }
}

new Dashboard(document.documentElement.dataset.actions).start();
