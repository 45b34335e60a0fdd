// The page of a sweep: its tables, a chart of dots per figure, and for each setting response time and utilisation of one run
// on one time axis. All data come from the element `data`; what they hold gets into the page as text, never as markup.

const data = JSON.parse(byId("data").textContent);
const kLeft = 46, kRight = 10, kTop = 18, kBottom = 20;

// Three digits or so; small ones keep their first.
function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value), digits = size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

const mebibytes = value => `${number(value / 1048576)} MiB`;

// A round number at or above `value`, and the distance of the lines below it.
function ceiling(value) {
  if (!(value > 0)) return {top: 1, step: 0.5};
  const power = 10 ** Math.floor(Math.log10(value));
  const top = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map(part => part * power).find(part => part >= value * 0.9999);
  return {top, step: top / 2};
}

function axisText(value) {
  return value.toLocaleString("en", {maximumSignificantDigits: 3});
}

function frame(svg, width, height, top, bottom = kBottom) {
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  const grid = drawing("g", {class: "grid"});
  const y = value => kTop + (height - kTop - bottom) * (1 - value / top.top);
  for (let value = 0; value <= top.top * 1.0001; value += top.step) {
    grid.append(drawing("line", {x1: kLeft, x2: width - kRight, y1: y(value), y2: y(value)}),
                drawing("text", {x: kLeft - 6, y: y(value) + 4, "text-anchor": "end"}, axisText(value)));
  }
  svg.append(grid);
  return {grid, y};
}

// Every repetition as a dot, the median as a bar, by setting.
class DotChart {
  static kHeight = 190;

  constructor(box, row) {
    this.row = row;
    const caption = element("figcaption", {}, element("h3", {}, row.title), element("span", {class: "soft"}, row.unit));
    this.svg = drawing("svg", {role: "img", "aria-label": `${row.title} by ${data.axis}: ${this.words()}`});
    this.chart = element("div", {class: "chart"}, this.svg);
    box.append(element("figure", {}, caption, this.chart));
    new ResizeObserver(() => this.draw()).observe(this.chart);
  }

  words() {
    return data.settings.map(setting => `${setting.name} ${number(setting.figures[this.row.path]?.median)}`).join(", ");
  }

  draw() {
    const width = this.chart.clientWidth, height = DotChart.kHeight;
    if (!width) return;
    const path = this.row.path, found = data.settings.map(setting => setting.figures[path]);
    const top = ceiling(Math.max(0, ...found.map(figure => figure?.max ?? 0)) * 1.05);
    // Names that are too long to stand side by side stand in two or three lines, none of them over the edge.
    const slot = (width - kLeft - kRight) / data.settings.length, reachOf = name => name.length * 3.3;
    const lines = Math.min(3, Math.ceil(data.settings.reduce((most, setting) => Math.max(most, 2 * reachOf(setting.name)), 0) / slot));
    const {grid, y} = frame(this.svg, width, height, top, kBottom + 13 * (lines - 1));
    data.settings.forEach((setting, i) => {
      const x = kLeft + slot * (i + 0.5), figure = found[i];
      const half = reachOf(setting.name), middle = Math.max(half, Math.min(width - half, x));
      const line = height - 5 - 13 * (lines - 1 - i % lines);
      grid.append(drawing("text", {x: middle, y: line, "text-anchor": "middle"}, setting.name));
      if (!figure) return;
      const reach = Math.min(14, slot * 0.3);
      this.svg.append(drawing("line", {class: "range", x1: x, x2: x, y1: y(figure.min), y2: y(figure.max)}),
                      drawing("line", {class: "median", x1: x - reach, x2: x + reach, y1: y(figure.median), y2: y(figure.median)}));
      setting.runs.forEach((run, j) => {
        const value = path.split(".").reduce((inner, key) => inner?.[key] ?? null, run.figures);
        if (value === null) return;
        const aside = setting.runs.length > 1 ? (j / (setting.runs.length - 1) - 0.5) * reach : 0;
        const dot = drawing("circle", {class: `dot ${run.state}`, cx: x + aside, cy: y(value), r: 3.6});
        const why = run.why ? `: ${run.why}` : "";
        dot.append(drawing("title", {}, `${setting.name}, round ${run.round}: ${number(value)} ${this.row.unit}, ${run.state}${why}`));
        this.svg.append(dot);
      });
    });
  }
}

const kSystemLines = ["one", "two", "three", "four"];
const lineOf = index => kSystemLines[index] ?? "more";

// Response time above, CPU of the systems below, on one time axis.
class TimeChart {
  static kUpper = 160;
  static kLower = 140;

  constructor(box, setting) {
    this.setting = setting;
    this.upper = drawing("svg", {role: "img", "aria-label": `Response time of messages, ${data.axis} ${setting.name}`});
    this.lower = drawing("svg", {role: "img", "aria-label": `CPU of the systems, ${data.axis} ${setting.name}`});
    this.hint = element("p", {class: "hint", hidden: ""});
    this.select = element("select", {"aria-label": `Run of ${setting.name}`});
    for (const run of setting.runs) {
      const middle = run.id === setting.typical ? ", middle p99" : "", busy = run.state === "busy" ? ", busy" : "";
      const option = element("option", {value: run.id}, `round ${run.round}${middle}${busy}`);
      option.selected = run.id === setting.typical;
      this.select.append(option);
    }
    this.select.addEventListener("change", () => this.draw());
    this.chart = element("div", {class: "chart"}, this.upper, this.lower, this.hint);
    box.append(element("figure", {}, element("figcaption", {}, element("h3", {}, setting.name), this.select), this.chart));
    this.chart.addEventListener("pointermove", event => this.point(event.clientX - this.chart.getBoundingClientRect().left));
    this.chart.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(this.chart);
  }

  get run() {
    return this.setting.runs.find(run => run.id === this.select.value);
  }

  draw() {
    this.width = this.chart.clientWidth;
    const run = this.run;
    if (!this.width || !run) return;
    const seconds = run.seconds?.second ?? [];
    this.from = Math.min(0, ...run.at);
    this.to = Math.max(1, ...run.at, ...seconds.map(second => second + 1));
    const x = this.x = at => kLeft + (this.width - kLeft - kRight) * (at - this.from) / (this.to - this.from);
    const names = ["p50", "p95", "p99"];
    const most = Math.max(0, ...names.flatMap(name => (run.seconds?.[name] ?? []).map(value => value ?? 0)));
    const upper = frame(this.upper, this.width, TimeChart.kUpper, ceiling(most));
    upper.grid.append(drawing("text", {class: "unit", x: kLeft, y: kTop - 7}, "ms"));
    this.shade(this.upper, TimeChart.kUpper);
    for (const name of names) this.line(this.upper, name, seconds.map(second => second + 0.5), run.seconds?.[name] ?? [], upper.y);
    const systems = Object.entries(run.cpu);
    const lower = frame(this.lower, this.width, TimeChart.kLower, ceiling(Math.max(10, ...systems.flatMap(([, cpu]) => cpu))));
    lower.grid.append(drawing("text", {class: "unit", x: kLeft, y: kTop - 7}, "% of a core"));
    this.shade(this.lower, TimeChart.kLower);
    systems.forEach(([, cpu], i) => this.line(this.lower, lineOf(i), run.at, cpu, lower.y));
    this.marks(lower.grid);
    this.cursors = [[this.upper, TimeChart.kUpper], [this.lower, TimeChart.kLower]].map(([svg, height]) => {
      const cursor = drawing("line", {class: "cursor", y1: kTop, y2: height - kBottom, visibility: "hidden"});
      svg.append(cursor);
      return cursor;
    });
  }

  // What came before the counted load.
  shade(svg, height) {
    if (this.from >= 0) return;
    svg.prepend(drawing("rect", {class: "warm", x: kLeft, width: this.x(0) - kLeft, y: kTop, height: height - kTop - kBottom}));
  }

  marks(grid) {
    const span = this.to - this.from, fit = Math.max(2, (this.width - kLeft) / 60);
    const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600].find(each => span / each <= fit) ?? 7200;
    for (let at = 0; at <= this.to; at += step) {
      const anchor = this.x(at) > this.width - 30 ? "end" : "middle";
      grid.append(drawing("text", {x: Math.min(this.x(at), this.width - 2), y: TimeChart.kLower - 5, "text-anchor": anchor}, `${at} s`));
    }
  }

  line(svg, kind, at, values, y) {
    let path = "", pen = "M";
    values.forEach((value, i) => {
      if (value === null || at[i] === undefined) {
        pen = "M";
        return;
      }
      path += `${pen}${this.x(at[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    });
    svg.append(drawing("path", {class: `line ${kind}`, d: path}));
  }

  point(x) {
    const run = this.run, at = x === null ? null : this.from + (x - kLeft) / (this.width - kLeft - kRight) * (this.to - this.from);
    const shown = run && at !== null && at >= this.from && at <= this.to;
    this.hint.hidden = !shown;
    for (const cursor of this.cursors ?? []) {
      cursor.setAttribute("visibility", shown ? "visible" : "hidden");
      if (shown) cursor.setAttribute("x1", x), cursor.setAttribute("x2", x);
    }
    if (!shown) return;
    const row = (run.seconds?.second ?? []).indexOf(Math.floor(at));
    const near = run.at.reduce((best, each, i) => Math.abs(each - at) < Math.abs(run.at[best] - at) ? i : best, 0);
    const times = row < 0 ? [] : ["p50", "p95", "p99"].map(name => `${name} ${number(run.seconds[name][row])} ms`);
    const cpu = Object.entries(run.cpu).map(([name, values]) => `${name} ${Math.round(values[near])} %`);
    this.hint.textContent = `${at.toFixed(1)} s  ${[...times, ...cpu].join(" · ")}`;
  }
}

function headRow(table, cells) {
  table.append(element("thead", {}, element("tr", {}, ...cells.map(text => element("th", {scope: "col"}, text)))));
}

function fillSummary() {
  const table = byId("summary"), body = element("tbody");
  headRow(table, [data.axis, `beside ${data.baseline}`, "runs", ...data.shown.map(row => `${row.title} (${row.unit})`)]);
  for (const setting of data.settings) {
    const cells = data.shown.map(row => {
      const figure = setting.figures[row.path];
      if (!figure) return element("td", {}, "–");
      return element("td", {}, number(figure.median), element("small", {}, `${number(figure.min)} – ${number(figure.max)}`));
    });
    body.append(element("tr", {}, element("th", {scope: "row"}, setting.name), element("td", {"data-kind": setting.kind}, setting.verdict),
                        element("td", {}, String(setting.runs.length)), ...cells));
  }
  table.append(body);
}

function fillSystems() {
  const names = [...new Set(data.settings.flatMap(setting => Object.keys(setting.cpu)))];
  const table = byId("systems"), body = element("tbody");
  headRow(table, [data.axis, ...names]);
  for (const setting of data.settings) {
    const cells = names.map(name => element("td", {}, setting.cpu[name] === undefined ? "–" : `${number(setting.cpu[name])} %`,
                                            element("small", {}, setting.memory[name] ? mebibytes(setting.memory[name]) : "")));
    body.append(element("tr", {}, element("th", {scope: "row"}, setting.name), ...cells));
  }
  table.append(body);
  for (const [kind, name] of [["p50", "p50"], ["p95", "p95"], ["p99", "p99"], ...names.map((name, i) => [lineOf(i), name])]) {
    const key = drawing("svg", {class: "key", viewBox: "0 0 28 10", "aria-hidden": "true"});
    key.append(drawing("path", {class: `line ${kind}`, d: "M0 5L28 5"}));
    byId("time-legend").append(element("li", {}, key, name));
  }
}

function fillWords() {
  const config = data.config;
  byId("verdict").textContent = data.overall;
  const busy = data.busy ? `, ${data.busy} of them on a busy machine` : "";
  byId("facts").textContent = `${data.runs_done} of ${data.runs_planned} runs${busy} · ${config.backends} backends, ${config.store}` +
      ` · ${config.memory_limit ? `each system in ${config.memory_limit}` : "no memory limits"} · seed ${config.seed}` +
      (data.started ? ` · ${data.started.slice(0, 16).replace("T", " ")} UTC` : "");
  byId("axis-name").textContent = data.axis;
  for (const note of [...data.left_out, ...data.notes]) byId("notes").append(element("li", {}, note));
  byId("method").append(
      "Load of each run: ", element("code", {}, `loadgen ${config.load.join(" ")}`), ". Each run had fresh systems, an empty store and " +
      "the same seed. Runs went round by round, in this order: ", data.order.join(", "), ". Values are medians, below them the " +
      "smallest and the largest run. A setting differs from the baseline only where loadgen compare says so, corrected for all " +
      "figures and settings; intervals are of the ratio to the baseline. Imbalance is the largest share of a backend over the mean. " +
      "Before 0 s is the warm-up.");
}

fillWords();
fillSummary();
fillSystems();
for (const row of data.shown) new DotChart(byId("figures"), row);
for (const setting of data.settings.filter(each => each.runs.length > 0)) new TimeChart(byId("times"), setting);
