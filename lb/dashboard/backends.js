// Backends: one row for each backend, a card on a narrow screen: its state, what it gets, its score by parts against the
// threshold, its load and its troubles; where the listener lets, the buttons that change its state.

const kParts = [["cpu", 0.25, "cpu"], ["in_flight", 0.45, "in-flight"], ["latency", 0.30, "latency"], ["stale_penalty", 1, "penalty"]];
const kColumns = [["state", "Backend"], ["traffic", "Traffic"], ["score", "Score"], ["load", "In flight"], ["delay", "Latency"],
  ["system", "CPU · memory"], ["trouble", "Trouble"]];

class BackendRow {
  constructor(id, actions) {
    this.id = id;
    this.actions = actions;
    this.row = element("li", {class: "backend", "data-id": id, "aria-label": `Backend ${id}`});
    this.cells = {};
    for (const [key, title] of kColumns) {
      this.cells[key] = element("div", {class: `cell ${key}`});
      if (key !== "state") this.cells[key].append(element("span", {class: "label"}, title));
      this.row.append(this.cells[key]);
    }
    this.makeState();
    this.makeBars();
    this.load = this.value("load");
    this.limit = element("span", {class: "soft"});
    this.cells.load.append(this.limit);
    this.delay = this.value("delay");
    this.system = this.value("system");
    this.makeTrouble();
    if (actions !== null) this.makeActions();
  }

  value(key, name = "b") {
    const made = element(name, {class: "value"});
    this.cells[key].append(made);
    return made;
  }

  makeState() {
    this.badge = element("span", {class: "badge state"});
    this.stale = element("span", {class: "badge", "data-kind": "warn", hidden: ""}, "stale statistics");
    this.url = element("span", {class: "soft url"});
    this.cells.state.append(element("b", {class: "name"}, this.id), this.badge, this.stale, this.url);
  }

  makeBars() {
    this.share = this.value("traffic");
    this.rate = element("span", {class: "soft"});
    this.shareBar = element("i", {class: "part cpu"});
    this.cells.traffic.append(this.rate, element("div", {class: "bar", "aria-hidden": "true"}, this.shareBar));
    this.score = this.value("score");
    this.partTexts = element("span", {class: "soft parts"});
    this.parts = kParts.map(([, , kind]) => element("i", {class: `part ${kind}`}));
    this.mark = element("i", {class: "mark"});
    this.cells.score.append(element("div", {class: "bar scored", "aria-hidden": "true"}, ...this.parts, this.mark), this.partTexts);
  }

  makeTrouble() {
    this.trouble = this.value("trouble", "span");
    this.error = element("span", {class: "soft error"});
    this.cells.trouble.append(this.error);
  }

  makeActions() {
    this.toggle = element("button", {type: "button", class: "toggle"});
    this.toggle.addEventListener("click", () => this.actions.setDrain(this.id, this.toggle.dataset.to));
    this.weight = element("input", {type: "number", min: "0", max: "65535", step: "1", required: "", inputmode: "numeric"});
    const form = element("form", {class: "weight"}, element("label", {}, "weight ", this.weight),
      element("button", {"aria-label": `Set the weight of ${this.id}`}, "Set"));
    form.addEventListener("submit", event => {
      event.preventDefault();
      this.actions.setWeight(this.id, Number(this.weight.value));
      this.weight.blur();
    });
    this.cells.actions = element("div", {class: "cell actions"}, this.toggle, form);
    this.row.append(this.cells.actions);
  }

  show(backend, snapshot, {share, rate}) {
    this.showState(backend);
    setText(this.url, backend.url + (backend.weight === 1 ? "" : `  weight ${backend.weight}`));
    setText(this.share, share === null ? "–" : `${Math.round(share * 100)} %`);
    setText(this.rate, `${Words.number(rate)}/s`);
    this.shareBar.style.width = `${(share ?? 0) * 100}%`;
    this.showScore(backend, snapshot);
    setText(this.load, Words.count(backend.in_flight));
    const {tunnels} = backend.counters.connections;
    const of = snapshot.backend_cap > 0 ? `of ${snapshot.backend_cap}` : `of ${snapshot.max_inflight}`;
    setText(this.limit, tunnels > 0 ? `${of}, ${Words.count(tunnels)} tunnels` : of);
    this.limit.title = snapshot.backend_cap > 0 ? "backend-cap" : "max-inflight, which counts as 100 points";
    setText(this.delay, Words.ms(backend.latency_ms));
    setText(this.system, `${Words.percent(backend.cpu_percent)} · ${Words.percent(backend.memory.unreclaimable_percent)}`);
    this.showTrouble(backend);
    if (this.actions !== null) this.showActions(backend);
  }

  showState(backend) {
    const state = stateOf(backend);
    const left = backend.state === "ejected" ? `, ${Math.ceil(backend.ejection.left_ms / 1000)} s left` : "";
    setText(this.badge, `${state.sign} ${state.text}${left}`);
    setData(this.badge, "kind", state.kind);
    setData(this.row, "state", backend.state);
    this.stale.hidden = !backend.statistics_stale;
  }

  showScore(backend, snapshot) {
    setText(this.score, backend.score.toFixed(1));
    const points = kParts.map(([key, weight]) => backend.score_parts[key] * weight);
    const names = ["cpu", "in flight", "latency", "stale"];
    setText(this.partTexts, points.map((value, i) => [value, names[i]]).filter(([value], i) => i < 3 || value > 0)
      .map(([value, name]) => `${name} ${value.toFixed(0)}`).join(" · "));
    points.forEach((value, i) => { this.parts[i].style.width = `${Math.min(100, value)}%`; });
    this.mark.style.left = `${snapshot.threshold}%`;
    setData(this.row, "over", String(backend.score >= snapshot.threshold));
  }

  showTrouble(backend) {
    const {responses, failures, retried_away: retried, ejection} = backend.counters;
    const failed = Object.values(failures).reduce((sum, count) => sum + count, 0);
    const said = [[responses["5xx"], "5xx"], [failed, "failures"], [retried, "retried"], [ejection?.total ?? 0, "ejections"]]
      .filter(([count]) => count > 0).map(([count, what]) => `${Words.count(count)} ${what}`);
    setText(this.trouble, said.length === 0 ? "none" : said.join(" · "));
    setData(this.trouble, "none", String(said.length === 0));
    const error = backend.last_error;
    setText(this.error, error === null ? "" : `${Words.clock(new Date(error.at))}  ${error.text}`);
    this.error.title = error === null ? "" : `${error.text}, ${error.at}`;
  }

  showActions(backend) {
    const out = backend.state === "draining" || backend.state === "maintenance";
    setText(this.toggle, out ? "Ready" : "Drain");
    setData(this.toggle, "to", out ? "ready" : "drain");
    this.toggle.setAttribute("aria-label", `${out ? "Give requests again to" : "Drain"} ${this.id}`);
    if (document.activeElement !== this.weight) this.weight.value = backend.weight;
  }
}

class Backends {
  constructor(actions) {
    this.actions = actions;
    this.rows = new Map();
    this.list = byId("backends");
    byId("columns").append(...kColumns.map(([key, title]) => element("span", {class: key}, title)));
  }

  show(snapshot, shares) {
    const gone = new Set(this.rows.keys());
    snapshot.backends.forEach((backend, i) => {
      gone.delete(backend.id);
      let row = this.rows.get(backend.id);
      if (row === undefined) this.rows.set(backend.id, row = new BackendRow(backend.id, this.actions));
      if (this.list.children[i] !== row.row) this.list.insertBefore(row.row, this.list.children[i] ?? null);
      row.show(backend, snapshot, shares[backend.id]);
    });
    for (const id of gone) {
      this.rows.get(id).row.remove();
      this.rows.delete(id);
    }
    setText(byId("threshold"), String(snapshot.threshold));
    const leaving = snapshot.backends_leaving.map(one => `${one.id} (${one.in_flight} in flight, ${one.tunnels} tunnels)`);
    byId("leaving").hidden = leaving.length === 0;
    setText(byId("leaving"), `Leaving: ${leaving.join(", ")}`);
  }
}
