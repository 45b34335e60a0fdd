// Curve: latency by percentile, the far end stretched: each nine has the same room.

class Curve {
  static kLeft = 58;
  static kRight = 14;
  static kHeight = 260;

  // lines: [{name, points: [[percent, ms], …]}], percents rising to 100; title: for who can't see it.
  constructor(box, legend, lines, title) {
    this.box = box;
    this.lines = lines.map((line, i) => {
      const look = `c${i % 6 + 1} d${i % 4 + 1}`, value = element("b");
      legend.append(element("li", {}, element("i", {class: `key ${look}`}), `${line.name} `, value));
      return {...line, value, path: drawing("path", {class: `line ${look}`})};
    });
    // The points gather at the far end: half of the operations are under the first line's p50.
    this.scale = Scale.latency(lines.flatMap(line => line.points.map(point => point[1])), lines[0].points.find(point => point[0] >= 50)?.[1]);
    // As far out as the most numerous kind reaches.
    this.far = Math.max(2, ...lines.map(line => Curve.nines(line.points.at(-2)?.[0] ?? 0)));
    this.svg = drawing("svg", {role: "img", "aria-label": title});
    this.back = drawing("g", {class: "grid"});
    this.cursor = drawing("line", {class: "cursor", visibility: "hidden"});
    this.at = drawing("text", {"text-anchor": "middle", visibility: "hidden"});
    this.svg.append(this.back, ...this.lines.map(line => line.path), this.cursor, this.at);
    box.append(this.svg);
    box.addEventListener("pointermove", event => this.point(event.clientX - box.getBoundingClientRect().left));
    box.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  static nines(percent) {
    return Math.log10(100 / Math.max(100 - percent, 1e-9));
  }

  x(percent) {
    return Curve.kLeft + (this.width - Curve.kLeft - Curve.kRight) * Math.min(Curve.nines(percent) / this.far, 1);
  }

  draw() {
    this.width = this.box.clientWidth;
    if (this.width === 0) return;
    const top = 16, bottom = Curve.kHeight - 20;
    const y = value => bottom - (bottom - top) * Math.min(Math.max(this.scale.at(value), 0), 1);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${Curve.kHeight}`);
    this.svg.setAttribute("height", Curve.kHeight);
    const marks = [];
    for (const tick of this.scale.ticks) {
      marks.push(drawing("line", {x1: Curve.kLeft, x2: this.width - Curve.kRight, y1: y(tick), y2: y(tick)}));
      marks.push(drawing("text", {x: Curve.kLeft - 6, y: y(tick) + 4, "text-anchor": "end"}, Words.ms(tick)));
    }
    let free = 0;
    for (const percent of [0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999]) {
      if (Curve.nines(percent) > this.far * 1.001) break;
      const x = this.x(percent), half = String(percent).length * 3.4 + 6;
      marks.push(drawing("line", {x1: x, x2: x, y1: top, y2: bottom}));
      if (x - half < free) continue;
      const edge = x + half > this.width ? "end" : "middle";
      marks.push(drawing("text", {x: edge === "end" ? this.width : x, y: Curve.kHeight - 4, "text-anchor": edge}, `${percent} %`));
      free = x + half;
    }
    this.back.replaceChildren(...marks);
    for (const line of this.lines) {
      line.path.setAttribute("d", linePath(line.points.map(([percent, ms]) => [this.x(percent), y(ms)])));
    }
    for (const [name, value] of [["y1", top], ["y2", bottom]]) this.cursor.setAttribute(name, value);
  }

  point(left) {
    const inside = left !== null && left >= Curve.kLeft - 8;
    const share = inside ? Math.min(Math.max((left - Curve.kLeft) / (this.width - Curve.kLeft - Curve.kRight), 0), 1) : 0;
    const percent = 100 - 100 / 10 ** (share * this.far);
    for (const mark of [this.cursor, this.at]) mark.setAttribute("visibility", inside ? "visible" : "hidden");
    if (inside) {
      for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x(percent));
      this.at.setAttribute("x", Math.min(Math.max(this.x(percent), Curve.kLeft + 20), this.width - 30));
      this.at.setAttribute("y", 11);
      this.at.textContent = `${percent.toFixed(percent < 99 ? 1 : percent < 99.9 ? 2 : 4)} %`;
    }
    for (const line of this.lines) {
      line.value.textContent = inside ? Words.ms((line.points.find(point => point[0] >= percent) ?? line.points.at(-1))[1]) : "";
    }
  }
}
