// Chart: lines over the last five minutes, now at the right edge. Lines differ by dash and by a named legend with their latest
// value, not by colour alone; the pointer shows the values of a moment.

class Chart {
  static kHeight = 150;
  static kLeft = 50;
  static kBottom = 18;
  static kTop = 8;

  // lines: [{key, name, kind}], of samples as History.rates() has them; format: of a value.
  constructor(box, legend, lines, {label, format}) {
    this.box = box;
    this.lines = lines;
    this.format = format;
    this.samples = [];
    this.svg = drawing("svg", {role: "img", "aria-label": label});
    this.grid = drawing("g", {class: "grid"});
    this.cursor = drawing("line", {class: "cursor"});
    this.paths = lines.map(line => drawing("path", {class: `line ${line.kind}`, fill: "none"}));
    this.svg.append(this.grid, ...this.paths, this.cursor);
    this.hint = element("p", {class: "hint", hidden: ""});
    box.append(this.svg, this.hint);
    this.values = lines.map(line => {
      const value = element("b", {}, "–");
      legend.append(element("li", {}, element("i", {class: `key ${line.kind}`}), `${line.name} `, value));
      return value;
    });
    box.addEventListener("pointermove", event => this.point(event.offsetX));
    box.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  // 1, 2 or 5 times a power of ten, above `value`.
  static ceiling(value) {
    if (!(value > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].map(step => step * power).find(step => step >= value);
  }

  show(samples) {
    this.samples = samples;
    this.lines.forEach((line, i) => setText(this.values[i], this.format(samples.at(-1)?.[line.key] ?? null)));
    this.draw();
  }

  x(at) {
    const width = this.width - Chart.kLeft;
    return Chart.kLeft + width * (1 - (this.now - at) / (History.kSeconds * 1000));
  }

  y(value) {
    const height = Chart.kHeight - Chart.kTop - Chart.kBottom;
    return Chart.kTop + height * (1 - value / this.top);
  }

  draw() {
    this.width = this.box.clientWidth;
    if (this.width === 0) return;
    this.now = this.samples.at(-1)?.at ?? 0;
    let most = 0;
    for (const sample of this.samples) {
      for (const line of this.lines) most = Math.max(most, sample[line.key] ?? 0);
    }
    this.top = Chart.ceiling(most);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${Chart.kHeight}`);
    this.drawGrid();
    this.lines.forEach((line, i) => this.paths[i].setAttribute("d", this.path(line.key)));
  }

  path(key) {
    let text = "", pen = "M";
    for (const sample of this.samples) {
      const value = sample[key], x = this.x(sample.at);
      if (value === null || x < Chart.kLeft) {
        pen = "M";
        continue;
      }
      text += `${pen}${x.toFixed(1)} ${this.y(value).toFixed(1)}`;
      pen = "L";
    }
    return text;
  }

  drawGrid() {
    const marks = [];
    for (const part of [0, 0.5, 1]) {
      const y = this.y(this.top * part);
      marks.push(drawing("line", {x1: Chart.kLeft, x2: this.width, y1: y, y2: y}));
      const label = drawing("text", {x: Chart.kLeft - 6, y: y + 4, "text-anchor": "end"});
      label.textContent = this.format(this.top * part);
      marks.push(label);
    }
    for (const minutes of [5, 4, 3, 2, 1, 0]) {
      const x = this.x(this.now - minutes * 60000);
      const label = drawing("text", {x, y: Chart.kHeight - 3, "text-anchor": minutes === 0 ? "end" : minutes === 5 ? "start" : "middle"});
      label.textContent = minutes === 0 ? "now" : `−${minutes} min`;
      if (minutes === 0 || minutes % 2 === 1 || this.width > 480) marks.push(label);
    }
    this.grid.replaceChildren(...marks);
  }

  point(x) {
    const near = x === null ? null : this.samples.findLast(sample => this.x(sample.at) <= x + 2);
    this.hint.hidden = !near;
    this.cursor.toggleAttribute("hidden", !near);
    if (!near) return;
    const at = this.x(near.at);
    for (const [name, value] of [["x1", at], ["x2", at], ["y1", Chart.kTop], ["y2", Chart.kHeight - Chart.kBottom]]) {
      this.cursor.setAttribute(name, value);
    }
    const values = this.lines.map(line => `${line.name} ${this.format(near[line.key])}`).join(" · ");
    setText(this.hint, `${Words.clock(new Date(near.at))}  ${values}`);
  }
}
