// One report: its JSON stands in this page, with the curves that the JSON leaves out.

const kReasonsShown = 6;

function showHead(report) {
  const several = report.stages.length > 1, config = report.config;
  document.title = `${report.experiment} · load report`;
  byId("title").textContent = report.experiment;
  const say = (text, kind) => {
    const made = element("span", {class: "badge"}, text);
    made.dataset.kind = kind;
    byId("badges").append(made);
  };
  byId("badges").replaceChildren();
  if (report.interrupted) say("INTERRUPTED", "warn");
  if (report.invalid.length) say("INVALID", "bad");
  if (report.failures.length) say("FAILED", "bad");
  if (report.exit_code === 0) say("passed", "good");
  if (report.verdict) say(report.verdict.promotable ? "PROMOTABLE" : "NOT PROMOTABLE", report.verdict.promotable ? "good" : "bad");
  const crowd = `${Words.count(config.users)} users${config.rate > 0 ? `, ${Words.number(config.rate)} a second` : ""}`;
  const load = onlyChat(report) ? `chat, ${crowd}` : config.profile ? `${config.profile}, ${report.stages.length} stages` : several ? `${report.stages.length} stages` : crowd;
  byId("facts").textContent = [onlyChat(report) ? config.wss_url.replaceAll(",", ", ") : config.url.join(", "), load, `seed ${config.seed}`, report.started.replace("T", " ").replace(/\.\d+.*$/, " UTC")].join(" · ");
  const reasons = [...report.failures, ...report.invalid.map(one => `INVALID: ${one}`), ...(report.verdict?.reasons ?? []).map(one => `not promotable: ${one}`)];
  byId("reasons").hidden = reasons.length === 0;
  const items = reasons.map(reason => element("li", {}, reason)), rest = items.splice(kReasonsShown);
  if (rest.length) items.push(element("li", {}, element("details", {}, element("summary", {}, `and ${rest.length} more`), element("ul", {}, ...rest))));
  byId("reasons").replaceChildren(...items);
}

// What the lists of the series say at each of its rows, in the middle of the row's time.
function seriesLines(report, lists) {
  const {second, step_seconds: step} = report.series, end = report.elapsed_seconds;
  return lists.map(([name, list, format = value => value]) => ({
    name, values: second.map((at, i) => [Math.min(at + Math.min(step, Math.max(end - at, 0.001)) / 2, end), known(list[i]) ? format(list[i], i) : null]),
  }));
}

function showTime(report) {
  const {series, elapsed_seconds: end} = report;
  const stages = report.stages.filter(stage => stage.ran).map(stage => ({name: stage.name, from: stage.started_after_seconds, to: stage.started_after_seconds + stage.elapsed_seconds}));
  const time = new Timeline(byId("time"), byId("time-note"), stages, end);
  // The last row may be of a moment only: too short for a rate.
  const covered = i => Math.min(series.step_seconds, end - series.second[i]);
  const rate = (value, i) => covered(i) < 0.3 * series.step_seconds && series.second.length > 1 ? null : value / Math.max(covered(i), 1e-3);
  const values = lines => lines.flatMap(line => line.values.map(value => value[1]));
  const most = lines => Math.max(0, ...values(lines).filter(known));

  const feedOnly = !series.p50_ms.some(known), prefix = feedOnly ? "feed_" : "";
  const latency = seriesLines(report, [["p50", series[`${prefix}p50_ms`]], ["p95", series[`${prefix}p95_ms`]], ["p99", series[`${prefix}p99_ms`]],
    ...series.intended_p99_ms ? [["p99 intended", series.intended_p99_ms]] : []]);
  const scale = Scale.latency(values(latency));
  time.add({name: "Response time", note: `of ${onlyChat(report) ? "messages, to the acknowledgement" : feedOnly ? "feeds" : "messages"}${scale.log ? ", logarithmic" : ""}`, lines: latency, format: Words.ms, scale, height: 170});

  const rates = seriesLines(report, [["ok", series.ok, rate], ...series.intended_p99_ms ? [["planned", series.planned, rate]] : []]);
  time.add({name: "Operations a second", lines: rates, format: Words.number, scale: Scale.linear(most(rates))});

  const errors = seriesLines(report, Object.entries(series.buckets).map(([bucket, list]) => [kBuckets[bucket] ?? bucket, list, rate]));
  if (errors.length) time.add({name: "Errors a second", lines: errors, format: Words.number, scale: Scale.linear(most(errors)), height: 90});

  const backends = Object.entries(series.backends), sum = series.second.map((_, i) => backends.reduce((all, [, list]) => all + list[i], 0));
  const shares = seriesLines(report, backends.sort(([a], [b]) => a.localeCompare(b, "en", {numeric: true})).map(([name, list]) => [name, list, (value, i) => sum[i] > 0 ? 100 * value / sum[i] : null]));
  if (shares.length > 1) time.add({name: "Share per backend", lines: shares, format: Words.percent, scale: Scale.linear(most(shares)), height: 90});

  const ofSystems = figure => report.systems.filter(system => system.series[figure]).map(system => ({
    name: system.name, values: system.series.elapsed_seconds.map((at, i) => [at, system.series[figure][i]]),
  }));
  for (const [name, note, figure, height] of [["CPU", "of each system's quota", "cpu_percent", 120], ["CPU of the process", "of one core", "process_cpu_percent", 90], ["Memory", "unreclaimable, of the limit", "memory_unreclaimable_percent", 110]]) {
    const lines = ofSystems(figure);
    const scale = figure === "process_cpu_percent" ? Scale.linear(Math.max(most(lines), 20)) : Scale.percent(most(lines));
    if (lines.length) time.add({name, note, lines, format: Words.percent, scale, height});
  }
  time.draw();
}

function showCurve({report, curves}) {
  const names = {message: "message", message_intended: "message, from the intended time", feed: "feed"};
  if (onlyChat(report)) byId("curve-note").textContent = "messages, to the acknowledgement";
  const lines = Object.entries(names).filter(([key]) => (curves[key] ?? []).length > 1).map(([key, name]) => ({name, points: curves[key]}));
  if (lines.length) new Curve(byId("curve"), byId("curve-legend"), lines, "Latency by percentile").draw();
  else byId("curve").textContent = "No operation succeeded.";
}

const data = JSON.parse(byId("data").textContent);
showHead(data.report);
showTiles(data.report);
showTime(data.report);
showChat(data);
showCurve(data);
showShares(data.report);
showErrors(data.report);
showStages(data.report);
showThresholds(data.report);
showSystems(data.report);
showFeeds(data.report);
showConfig(data.report);
document.body.dataset.ready = "yes";
