// Timeline: panels of lines, one below the other, on one axis of time with the stages as bands. The pointer marks a moment in all
// of them; their legends then show its values. Lines differ by colour and dash, and by a named legend.

const Scale = {
  // Ticks from 0 to a round number above `most`.
  linear(most) {
    const rough = (most > 0 ? most : 1) / 3, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map(one => one * power).find(one => one >= rough * 0.999);
    const ticks = [0];
    while (ticks.at(-1) < most * 0.999 || ticks.length < 2) ticks.push(+(ticks.at(-1) + step).toPrecision(12));
    return {ticks, at: value => value / ticks.at(-1)};
  },

  // Of percentages: to 100, further only for what is clearly over it, and less far for what is small.
  percent: most => most > 40 && most <= 110 ? {ticks: [0, 50, 100], at: value => value / 100} : Scale.linear(Math.max(most, 10)),

  // Powers of ten, with what lies between them when there are few.
  log(least, most) {
    const low = Math.floor(Math.log10(Math.max(least, 1e-3))), high = Math.max(low + 1, Math.ceil(Math.log10(most)));
    const ticks = [];
    for (let power = low; power <= high; ++power) {
      ticks.push(10 ** power);
      if (high - low <= 2 && power < high) ticks.push(3 * 10 ** power);
    }
    return {ticks, at: value => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)};
  },

  // A latency's: logarithmic when it spans so much that the small ones would be a flat line.
  // `middle`: what most of them are about, else their median.
  latency(values, middle = null) {
    const shown = values.filter(value => known(value) && value > 0).sort((a, b) => a - b);
    if (shown.length === 0) return {...Scale.linear(1), log: false};
    const most = shown.at(-1);
    return most > 40 * (middle || shown[shown.length >> 1]) ? {...Scale.log(shown[0], most), log: true} : {...Scale.linear(most), log: false};
  },
};

// "M… L…" through points [[x, y|null], …]; null is a gap, a point between gaps a dot.
function linePath(points) {
  let text = "", open = false;
  points.forEach(([x, y], i) => {
    if (y === null) {
      open = false;
      return;
    }
    const lonely = !open && (points[i + 1]?.[1] ?? null) === null;
    text += `${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}${lonely ? "h0" : ""}`;
    open = true;
  });
  return text;
}

class Timeline {
  static kLeft = 58;
  static kRight = 6;
  static kTop = 6;

  // stages: [{name, from, to}] in seconds; end: of the axis.
  constructor(box, note, stages, end) {
    Object.assign(this, {box, note, stages, end: Math.max(end, 1), panels: []});
    box.addEventListener("pointermove", event => this.point(event.clientX - box.getBoundingClientRect().left));
    box.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(box);
    addEventListener("beforeprint", () => this.draw());
  }

  // lines: [{name, values: [[seconds, value|null], …]}]; format: of a value; scale: of all values.
  add({name, note = "", lines, format, scale, height = 120, limit = null}) {
    const first = this.panels.length === 0;
    const head = element("div", {class: "head"}, element("p", {class: "name"}, name, element("span", {class: "soft"}, note ? ` ${note}` : "")));
    const legend = element("ul", {class: "legend"});
    const svg = drawing("svg", {role: "img", "aria-label": `${name}${note ? ", " + note : ""}, over time`});
    const back = drawing("g", {class: "grid"}), cursor = drawing("line", {class: "cursor", visibility: "hidden"});
    const panel = {svg, back, cursor, scale, format, limit, height, first, lines: lines.map((line, i) => {
      const look = `c${i % 6 + 1} d${i % 4 + 1}`, value = element("b");
      legend.append(element("li", {}, element("i", {class: `key ${look}`}), `${line.name} `, value));
      return {...line, value, path: drawing("path", {class: `line ${look}`})};
    })};
    head.append(legend);
    svg.append(back, ...panel.lines.map(line => line.path), cursor);
    this.box.append(element("div", {class: "panel"}, head, svg));
    this.panels.push(panel);
  }

  x(seconds) {
    return Timeline.kLeft + (this.width - Timeline.kLeft - Timeline.kRight) * seconds / this.end;
  }

  draw() {
    const width = this.box.clientWidth;
    if (width === 0) return;
    this.width = width;
    this.panels.forEach((panel, i) => this.drawPanel(panel, i === this.panels.length - 1));
  }

  drawPanel(panel, last) {
    const top = Timeline.kTop + (panel.first ? 14 : 0), bottom = panel.height - (last ? 20 : 4) + (panel.first ? 14 : 0);
    const height = bottom + (last ? 20 : 4);
    const y = value => bottom - (bottom - top) * Math.min(Math.max(panel.scale.at(value), 0), 1);
    panel.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    panel.svg.setAttribute("height", height);
    const marks = this.bands(panel, top, bottom);
    for (const tick of panel.scale.ticks) {
      marks.push(drawing("line", {x1: Timeline.kLeft, x2: this.width - Timeline.kRight, y1: y(tick), y2: y(tick)}));
      marks.push(drawing("text", {x: Timeline.kLeft - 6, y: y(tick) + 4, "text-anchor": "end"}, panel.format(tick)));
    }
    if (panel.limit !== null) marks.push(drawing("line", {class: "limit", x1: Timeline.kLeft, x2: this.width - Timeline.kRight, y1: y(panel.limit), y2: y(panel.limit)}));
    if (last) marks.push(...this.times(height));
    panel.back.replaceChildren(...marks);
    for (const line of panel.lines) {
      line.path.setAttribute("d", linePath(line.values.map(([at, value]) => [this.x(Math.min(at, this.end)), known(value) ? y(value) : null])));
    }
    for (const [name, value] of [["y1", top], ["y2", bottom]]) panel.cursor.setAttribute(name, value);
  }

  // Every other stage shaded; their names stand on the first panel, short ones where the whole ones have no room.
  bands(panel, top, bottom) {
    const marks = [];
    const short = name => name.replace(/^.*-(?=\d+$)/, "");
    const fits = (name, stage) => name.length * 6.3 + 8 < this.x(stage.to) - this.x(stage.from);
    const named = this.stages.every(stage => fits(stage.name, stage)) ? name => name : short;
    this.stages.forEach((stage, i) => {
      const from = this.x(stage.from), to = this.x(Math.max(stage.to, stage.from));
      if (i % 2 === 0 && this.stages.length > 1) marks.push(drawing("rect", {class: "band", x: from, y: top, width: Math.max(to - from, 0.5), height: bottom - top}));
      if (!panel.first || this.stages.length < 2) return;
      const name = named(stage.name);
      if (fits(name, stage)) marks.push(drawing("text", {x: (from + to) / 2, y: 11, "text-anchor": "middle"}, name));
    });
    return marks;
  }

  times(height) {
    const most = Math.max(2, Math.floor((this.width - Timeline.kLeft) / 70)), rough = this.end / most;
    const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].find(one => one >= rough) ?? Math.ceil(rough / 86400) * 86400;
    const marks = [];
    for (let at = 0; at <= this.end * 1.0001; at += step) {
      const x = this.x(at), edge = at === 0 ? "start" : x > this.width - 24 ? "end" : "middle";
      marks.push(drawing("text", {x, y: height - 4, "text-anchor": edge}, Words.clock(at)));
    }
    return marks;
  }

  point(left) {
    const inside = left !== null && left >= Timeline.kLeft - 8;
    const at = inside ? Math.min(Math.max((left - Timeline.kLeft) / (this.width - Timeline.kLeft - Timeline.kRight), 0), 1) * this.end : null;
    const stage = inside ? this.stages.find(one => at >= one.from && at <= one.to) : null;
    this.note.textContent = inside ? `${Words.clock(at)}${stage && this.stages.length > 1 ? ` · ${stage.name}` : ""}` : "";
    for (const panel of this.panels) {
      panel.cursor.setAttribute("visibility", inside ? "visible" : "hidden");
      if (inside) for (const end of ["x1", "x2"]) panel.cursor.setAttribute(end, this.x(at));
      for (const line of panel.lines) line.value.textContent = inside ? panel.format(nearest(line.values, at)) : "";
    }
  }
}

// The value at the place that is nearest to `at`; places rise.
function nearest(values, at) {
  let low = 0, high = values.length - 1;
  if (high < 0) return null;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle][0] < at) low = middle + 1;
    else high = middle;
  }
  const before = values[Math.max(low - 1, 0)], here = values[low];
  return Math.abs(before[0] - at) < Math.abs(here[0] - at) ? before[1] : here[1];
}
