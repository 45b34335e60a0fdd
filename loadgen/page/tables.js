// The tiles and tables of a report, as they stand in its JSON.

// A table of columns [{name, text?}] and rows of cells: a text, or {text, kind?, node?}; a row may have `kind` and `off`.
function fillTable(id, columns, rows) {
  const head = element("tr", {}, ...columns.map(column => element("th", {scope: "col"}, column.name)));
  const body = rows.map(row => {
    const cells = row.cells.map((cell, i) => {
      const {text = "", kind = null, node = null} = typeof cell === "object" && cell !== null ? cell : {text: cell};
      const made = element(i === 0 ? "th" : "td", i === 0 ? {scope: "row"} : {}, node ?? text);
      if (kind) made.dataset.kind = kind;
      if (columns[i].text && i > 0) made.className = "text";
      if (node) made.className = "bar-cell";
      return made;
    });
    const made = element("tr", row.off ? {class: "off"} : {}, ...cells);
    if (row.kind) made.dataset.kind = row.kind;
    return made;
  });
  byId(id).replaceChildren(...(columns.some(column => column.name) ? [element("thead", {}, head)] : []), element("tbody", {}, ...body));
}

const kBuckets = {
  other_2xx: "other 2xx", "3xx": "3xx", "4xx": "4xx", "5xx": "5xx", connect: "no connection", time_out: "time-out", reset: "reset",
  short_body: "body cut short", malformed: "not HTTP", interrupted: "interrupted", not_issued: "not issued",
};

function tile(label, value, note = "", kind = null) {
  const made = element("div", {class: "tile"}, element("p", {class: "soft"}, label), element("p", {class: "value"}, value), element("p", {class: "soft"}, note));
  if (kind) made.dataset.kind = kind;
  return made;
}

function showTiles(report) {
  const all = report.operations, post = all.message.latency_ms, feed = all.feed.latency_ms, intended = all.message.intended_latency_ms;
  const tiles = [
    tile("throughput", `${Words.number(all.throughput_per_second)}/s`, `ok in ${Words.seconds(report.elapsed_seconds)}`),
    tile("ok", Words.count(all.buckets.ok), `${Words.share(all.buckets.ok, all.planned)} of ${Words.count(all.planned)}`, all.buckets.ok < all.planned ? "bad" : null),
    tile("failed", Words.count(all.failed), `${Words.share(all.failed, all.done)} of those done`, all.failed > 0 ? "bad" : null),
  ];
  if (post.count > 0) {
    tiles.push(tile("message p50", Words.ms(post.p50), `mean ${Words.ms(post.mean)}`), tile("message p95", Words.ms(post.p95)), tile("message p99", Words.ms(post.p99), `max ${Words.ms(post.max)}`));
  }
  if (intended.count > 0) tiles.push(tile("intended p99", Words.ms(intended.p99), "from the intended time"));
  if (feed.count > 0) tiles.push(tile("feed p50", Words.ms(feed.p50), `p99 ${Words.ms(feed.p99)}`));
  if (report.verification) {
    const {lost = null, found = null, duplicated = 0} = report.verification.feed;
    tiles.push(tile("lost messages", Words.count(lost), `${Words.count(found)} found, ${Words.count(duplicated)} double`, lost !== 0 || duplicated ? "bad" : null));
  }
  tiles.push(...chatTiles(report), tile("generator", Words.percent(100 * report.generator.cpu_share), "of a core", report.invalid.length ? "bad" : null));
  byId("tiles").replaceChildren(...tiles);
}

function showShares(report) {
  // The chat's servers don't say who they are.
  for (const id of ["shares-caption", "shares-part"]) byId(id).hidden = onlyChat(report) && report.backends.length === 0;
  const whole = report.backends.reduce((sum, backend) => sum + backend.responses, 0);
  const bar = share => {
    const made = element("span", {class: "bar", title: `${(100 * share).toFixed(1)} %`});
    made.style.width = `${100 * share}%`;
    return made;
  };
  fillTable("shares", [{name: "backend"}, {name: "answers"}, {name: "share"}, {name: ""}, {name: "mean, ok"}], report.backends.toSorted((a, b) => a.id.localeCompare(b.id, "en", {numeric: true})).map(backend => ({
    cells: [backend.id, Words.count(backend.responses), Words.share(backend.responses, whole), {node: bar(backend.responses / Math.max(whole, 1))}, backend.ok > 0 ? Words.ms(backend.latency_ms_mean) : "–"],
  })));
}

function showErrors(report) {
  const {buckets, planned, errnos} = report.operations, rows = [];
  for (const [bucket, name] of Object.entries(kBuckets)) {
    if (!buckets[bucket]) continue;
    const of = kind => report.operations[kind].buckets[bucket];
    const [message, feed] = bucket === "not_issued" ? [null, null] : [of("message"), of("feed")];
    rows.push({cells: [name, Words.count(buckets[bucket]), Words.share(buckets[bucket], planned), Words.count(message), Words.count(feed)]});
  }
  for (const [name, count] of Object.entries(errnos)) rows.push({off: true, cells: [name, Words.count(count), "", "", ""]});
  if (rows.length === 0) rows.push({off: true, cells: ["none", "0", "", "0", "0"]});
  const names = ["what", "operations", "of the plan", ...onlyChat(report) ? [] : ["messages", "feeds"]];
  for (const row of rows) row.cells.length = names.length;
  fillTable("errors", names.map(name => ({name})), rows);
}

function showStages(report) {
  const stages = report.stages, feeds = stages.some(stage => stage.operations.feed.issued > 0);
  const names = ["stage", "users", "ok", "failed", "not issued", "seconds", "ok/s", "mean", "p50", "p95", "p99", ...feeds ? ["feed mean", "feed p99"] : [], ""];
  const rows = stages.map(stage => {
    const all = stage.operations, post = all.message.latency_ms, feed = all.feed.latency_ms;
    const ms = (one, key) => one.count > 0 ? Words.ms(one[key]) : "–";
    const word = !stage.ran ? "did not run" : stage.hit_window ? "hit its window" : all.failed > 0 ? "errors" : "";
    return {off: !stage.ran, kind: word ? "bad" : null, cells: [
      stage.name, Words.count(stage.users), Words.count(all.buckets.ok), Words.count(all.failed), Words.count(all.buckets.not_issued),
      stage.ran ? stage.elapsed_seconds.toFixed(1) : "–", stage.ran ? Words.number(all.throughput_per_second) : "–",
      ms(post, "mean"), ms(post, "p50"), ms(post, "p95"), ms(post, "p99"), ...feeds ? [ms(feed, "mean"), ms(feed, "p99")] : [], word,
    ]};
  });
  fillTable("stages", names.map(name => ({name})), rows);
}

function showThresholds(report) {
  byId("thresholds-figure").hidden = report.thresholds.length === 0;
  const units = {ms: Words.ms, percent: value => `${+value.toFixed(4)} %`, count: Words.count, per_second: value => `${Words.number(value)}/s`};
  fillTable("thresholds", [{name: "threshold"}, {name: "measured"}, {name: ""}], report.thresholds.map(one => ({
    kind: one.held ? null : "bad",
    cells: [one.expression, known(one.value) ? (units[one.unit] ?? Words.number)(one.value) : "not measured", one.held ? "held" : "not held"],
  })));
}

function showSystems(report) {
  byId("systems-figure").hidden = report.systems.length === 0;
  const pair = (figure, format) => figure ? `${format(figure.mean)} · ${format(figure.max)}` : "–";
  fillTable("systems", ["system", "CPU", "CPU of the process", "RSS", "memory in all", "working set", "unreclaimable", "limit", "score", "samples", "missed"].map(name => ({name})),
    report.systems.map(system => ({cells: [
      `${system.name} ${system.id}${system.source === "balancer" ? " (as the balancer sees it)" : ""}`,
      pair(system.cpu_percent, Words.percent), pair(system.process_cpu_percent, Words.percent), pair(system.rss_bytes, Words.bytes),
      pair(system.memory_total_bytes, Words.bytes), pair(system.memory_working_set_bytes, Words.bytes), pair(system.memory_unreclaimable_percent, Words.percent),
      Words.bytes(system.memory_limit_bytes), pair(system.score, Words.number), Words.count(system.samples), {text: Words.count(system.missed), kind: system.missed > 0 ? "bad" : null},
    ]})));
}

function showFeeds(report) {
  byId("feeds-figure").hidden = !report.verification;
  if (!report.verification) return;
  const feeds = [report.verification.feed, ...report.verification.backends];
  fillTable("feeds", ["feed", "rows", "found", "lost", "double", "altered", ""].map(name => ({name})), feeds.map(feed => ({
    kind: feed.passed ? null : "bad",
    cells: [feed.url, Words.count(feed.rows), Words.count(feed.found), Words.count(feed.lost), Words.count(feed.duplicated), Words.count(feed.altered),
      feed.passed ? "verified" : feed.fetched ? "FAILED" : `not read: ${feed.error}`],
  })));
}

function showConfig(report) {
  const text = value => Array.isArray(value) ? value.join(", ") : typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
  const facts = [["program", report.program], ["started", report.started], ["exit code", report.exit_code], ...Object.entries(report.config).filter(([name]) => name !== "users" || !report.config.profile || onlyChat(report))];
  byId("config").replaceChildren(...facts.filter(([, value]) => text(value) !== "").map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, text(value)))));
}
