#include "bench/simulate/page.h"

#include <string>

namespace dlb::bench {
namespace {

constexpr std::string_view kHead = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>dlb: policies in simulation</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --back: #fff; --band: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9da7b1; --line: #30363d; --back: #0d1117; --band: #161b22; }
}
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 0 auto; padding: 1rem;
  max-width: 70rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .3rem; } p { color: var(--soft); margin: .2rem 0 .6rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
td.best { font-weight: 650; } tr.measured { background: var(--band); }
i.key { display: inline-block; width: .8em; height: .8em; margin-right: .45em; border-radius: 2px; }
.share { display: inline-flex; width: 9rem; height: .8em; vertical-align: middle; }
.share span { border-right: 1px solid var(--back); }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 11px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; margin-top: .8rem; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .85rem; }
select { font: inherit; }
</style></head><body>
<h1>Policies in simulation</h1>
<p>The balancer's own routing, health, ejection, queue and retry classes in virtual time; every policy meets the same requests.
Latencies are of good answers. Bold: the best of a column, ties included.</p>
<main></main>
<script>
)html";

constexpr std::string_view kScript = R"html(
const hues = ["#0969da", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#0b7285", "#bc4c00", "#6e7781"];
const node = (name, attributes = {}, ...children) => {
  const svg = ["svg", "path", "text", "line", "rect"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const short = value => value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
const measured = one => one.policy.includes("measured");
const width = 460, height = 190, left = 56, bottom = 22, top_ = 8;
const across = (part, parts) => left + (width - left - 8) * part / parts;

function axes(chart, one, ticks, y) {
  for (const [value, label] of ticks) {
    chart.append(node("line", {x1: left, x2: width - 8, y1: y(value), y2: y(value), stroke: "var(--line)"}),
                 node("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, label));
  }
  for (const part of [0, .25, .5, .75, 1]) {
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    chart.append(node("text", {x: across(part, 1), y: height - 6, "text-anchor": anchor},
                      (one.duration_seconds * part).toFixed(0) + " s"));
  }
}

function latency(rows, colour) {
  const chart = node("svg", {viewBox: `0 0 ${width} ${height}`, role: "img"});
  const values = rows.flatMap(one => one.buckets.map(bucket => bucket.p99_ms)).filter(value => value > 0);
  if (!values.length) return chart;
  const low = Math.log10(Math.min(...values)), high = Math.max(Math.log10(Math.max(...values)), low + .3);
  const y = value => height - bottom - (height - bottom - top_) * (Math.log10(value) - low) / (high - low);
  const ticks = [];
  for (let power = Math.floor(low); power <= high; ++power) {
    for (const digit of high - low > 1.5 ? [1] : [1, 2, 5]) {
      const value = digit * 10 ** power;
      if (Math.log10(value) >= low && Math.log10(value) <= high) ticks.push([value, value + " ms"]);
    }
  }
  axes(chart, rows[0], ticks, y);
  for (const one of rows) {
    let path = "", pen = "M";
    one.buckets.forEach((bucket, index) => {
      if (!(bucket.p99_ms > 0)) return;
      path += `${pen}${across(index + .5, one.buckets.length).toFixed(1)} ${y(bucket.p99_ms).toFixed(1)}`;
      pen = "L";
    });
    chart.append(node("path", {d: path, fill: "none", stroke: colour(one), "stroke-width": measured(one) ? 1 : 1.5,
                               "stroke-dasharray": measured(one) ? "3 2" : "none"}));
  }
  return chart;
}

function shares(one) {
  const chart = node("svg", {viewBox: `0 0 ${width} ${height}`, role: "img"});
  const y = value => height - bottom - (height - bottom - top_) * value;
  axes(chart, one, [[0, "0 %"], [.5, "50 %"], [1, "100 %"]], y);
  const step = (width - left - 8) / one.buckets.length;
  one.buckets.forEach((bucket, index) => {
    const all = bucket.picks.reduce((sum, picks) => sum + picks, 0);
    let below = 0;
    bucket.picks.forEach((picks, server) => {
      if (!picks) return;
      const until = below + picks / all;
      chart.append(node("rect", {x: left + index * step, width: step + .3, y: y(until), height: y(below) - y(until),
                                 fill: hues[server % hues.length]}));
      below = until;
    });
  });
  return chart;
}

function shareBar(one) {
  const all = one.servers.reduce((sum, server) => sum + server.requests, 0) || 1;
  const bar = node("span", {class: "share"});
  one.servers.forEach((server, index) => {
    const percent = 100 * server.requests / all;
    bar.append(node("span", {style: `width:${percent}%;background:${hues[index % hues.length]}`,
                             title: `${server.id}: ${percent.toFixed(1)} %`}));
  });
  return bar;
}

function section(name, rows) {
  const policies = [...new Set(rows.map(one => one.policy.split(",")[0]))];
  const colour = one => hues[policies.indexOf(one.policy.split(",")[0]) % hues.length];
  const columns = [["success %", one => one.success_percent, false, value => value.toFixed(3)],
                   ["mean ms", one => one.mean_ms, true, short], ["p50 ms", one => one.p50_ms, true, short],
                   ["p99 ms", one => one.p99_ms, true, short], ["p99.9 ms", one => one.p999_ms, true, short],
                   ["retries", one => one.retries], ["queued", one => one.queued], ["ejected", one => one.ejections]];
  const body = node("tbody");
  for (const one of rows) {
    const row = node("tr", {class: measured(one) ? "measured" : ""});
    row.append(node("td", {}, node("i", {class: "key", style: `background:${colour(one)}`}), one.policy));
    for (const [, value, less, text] of columns) {
      const peers = rows.filter(other => measured(other) === measured(one)).map(value);
      const best = less === undefined ? NaN : less ? Math.min(...peers) * 1.005 : Math.max(...peers) - .0005;
      const is = less ? value(one) <= best : value(one) >= best;
      row.append(node("td", {class: is ? "best" : ""}, text ? text(value(one)) : String(value(one))));
    }
    row.append(node("td", {}, shareBar(one)));
    body.append(row);
  }
  const head = node("tr", {}, node("th", {}, "policy"), ...columns.map(([title]) => node("th", {}, title)),
                    node("th", {}, "share by server"));
  const out = node("section", {}, node("h2", {}, name.replaceAll("_", " ")),
                   node("p", {}, rows[0].about + ", " + rows[0].requests + " requests"),
                   node("div", {class: "wide"}, node("table", {}, node("thead", {}, head), body)));
  const charts = node("div", {class: "charts"});
  charts.append(node("figure", {}, latency(rows, colour), node("figcaption", {}, "p99 of each moment, logarithmic")));
  const drawn = rows.filter(one => one.buckets.some(bucket => bucket.picks.length));
  if (drawn.length) {
    const choice = node("select", {"aria-label": "policy"}, ...drawn.map(one => node("option", {}, one.policy)));
    const figure = node("figure", {}, shares(drawn[0]), node("figcaption", {}, "requests by server, under ", choice));
    choice.onchange = () => figure.replaceChild(shares(drawn[choice.selectedIndex]), figure.firstChild);
    charts.append(figure);
  }
  out.append(charts);
  return out;
}

for (const name of [...new Set(outcomes.map(one => one.scenario))]) {
  const rows = outcomes.filter(one => one.scenario === name).concat(beside.filter(one => one.scenario === name));
  document.querySelector("main").append(section(name, rows));
}
</script></body></html>
)html";

// JSON inside a script element: no text of it may end the element.
std::string for_script(std::string_view json) {
  std::string out;
  for (std::size_t i = 0; i < json.size(); ++i) {
    out += json[i];
    if (json[i] == '<') out.back() = '\\', out += "u003c";
  }
  return out;
}

}  // namespace

std::string outcome_page(std::string_view outcomes, std::string_view beside) {
  std::string out(kHead);
  out += "const outcomes = " + for_script(outcomes) +
         ";\nconst beside = " + for_script(beside.empty() ? "[]" : beside) + ";\n";
  out += kScript;
  return out;
}

}  // namespace dlb::bench
