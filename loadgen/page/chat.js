// The users of the chat: what they got, what the oracle found wrong with it, and how soon it came. Shown where the report has `chat`.

const kChatExamplesShown = 4;

const kChatFaults = [
  ["missed", "missed", "rows that never came"],
  ["duplicated", "duplicated", "rows that came again"],
  ["reordered", "reordered", "rows behind a newer one"],
  ["altered", "altered", "rows with another text, name, sequence or time than promised"],
  ["phantom", "phantom", "rows that no feed has"],
  ["contradicted", "contradicted", "promises that another one contradicts"],
  ["resets", "begun anew", "histories, under way"],
  ["unsettled", "behind", "subscribers who were away or behind at the end"],
];

// Whose load is the chat's alone: nothing was posted or read by HTTP.
const onlyChat = report => report.config.profile === "chat";

// [words, kind]
function chatVerdict(report) {
  const {chat} = report;
  if (!chat.passed) return report.interrupted ? ["interrupted, so not judged", "warn"] : ["FAILED", "bad"];
  if (chat.expected === 0) return ["nothing was to be delivered", "wait"];
  return report.interrupted ? ["right until it was interrupted", "wait"] : ["each once, in order", "good"];
}

function chatTiles(report) {
  const {chat} = report;
  if (!chat) return [];
  const wrong = kChatFaults.reduce((sum, [key]) => sum + chat[key], 0), bad = chatVerdict(report)[1] === "bad";
  const tiles = [tile("deliveries", `${Words.number(chat.deliveries_per_second)}/s`, `${Words.share(chat.delivered, chat.expected)} of ${Words.count(chat.expected)}`, bad && chat.delivered < chat.expected ? "bad" : null)];
  if (chat.fanout_ms.count > 0) tiles.push(tile("fan-out p99", Words.ms(chat.fanout_ms.p99), `p50 ${Words.ms(chat.fanout_ms.p50)}`));
  tiles.push(tile("chat faults", Words.count(wrong), chatVerdict(report)[0], bad ? "bad" : null));
  return tiles;
}

function showChatTimes(report, curves) {
  const {chat} = report, start = onlyChat(report) ? "the intended time" : "the request's first byte";
  const kinds = [["fanout", `fan-out, from ${start}`, chat.fanout_ms], ["after_ack", "from the ack", chat.after_ack_ms],
    ["catch_up", "catching up after a drop", chat.catch_up_ms], ["join", "joining, before the run", chat.join_ms]].filter(([, , times]) => times.count > 0);
  // As many joins as subscribers, and far longer ones: they would only press the others flat.
  const lines = kinds.filter(([key]) => key !== "join" && (curves[key] ?? []).length > 1).map(([key, name]) => ({name, points: curves[key]}));
  if (lines.length) new Curve(byId("chat-curve"), byId("chat-curve-legend"), lines, "Latency of the chat by percentile").draw();
  else byId("chat-curve").textContent = "Nobody got a message of this run.";
  byId("chat-times").hidden = kinds.length === 0;
  fillTable("chat-times", ["", "times", "p50", "p90", "p99", "max"].map(name => ({name})), kinds.map(([, name, times]) => ({
    cells: [name, Words.count(times.count), ...["p50", "p90", "p99", "max"].map(key => Words.ms(times[key]))],
  })));
}

function showChatFaults(report) {
  const {chat} = report, bad = chatVerdict(report)[1] === "bad";
  fillTable("chat-faults", [{name: "what subscribers got"}, {name: ""}, {name: "", text: true}], kChatFaults.map(([key, name, words]) => ({
    off: chat[key] === 0, cells: [name, {text: Words.count(chat[key]), kind: bad && chat[key] > 0 ? "bad" : null}, words],
  })));
  byId("chat-examples").hidden = chat.examples.length === 0;
  const items = chat.examples.map(example => element("li", {}, example)), rest = items.splice(kChatExamplesShown);
  if (rest.length) items.push(element("li", {}, element("details", {}, element("summary", {}, `and ${rest.length} more`), element("ul", {}, ...rest))));
  byId("chat-examples").replaceChildren(...items);
}

function showChatFacts({chat}) {
  const facts = [
    ["messages accepted", Words.count(chat.accepted)],
    ["rows in the history", `${Words.count(chat.rows)}${chat.foreign_rows > 0 ? `, ${Words.count(chat.foreign_rows)} by others` : ""}`],
    ["deliveries expected", Words.count(chat.expected)],
    ["delivered", `${Words.count(chat.delivered)} (${Words.share(chat.delivered, chat.expected)})`],
    ["deliveries a second", Words.number(chat.deliveries_per_second)],
    ["compared with a feed", chat.feed_read ? "yes" : "no, with promises alone"],
    ...chat.signed_ahead > 0 ? [["signed ahead", `${Words.count(chat.signed_ahead)} in ${Words.seconds(chat.signing_seconds)}`]] : [],
    ...chat.duplicate_acks > 0 ? [["stored before this run", Words.count(chat.duplicate_acks)]] : [],
    ["dropped as planned", Words.count(chat.planned_drops)],
    ["connections lost", Words.count(chat.lost_connections), chat.lost_connections > 0],
    ...chat.slow_consumer_closes > 0 ? [["of them as slow consumers", Words.count(chat.slow_consumer_closes), true]] : [],
    ["sessions resumed", Words.count(chat.resumed)],
    ...Object.entries(chat.errors).map(([code, count]) => [`error ${code}`, Words.count(count), true]),
  ];
  byId("chat-facts").replaceChildren(...facts.map(([name, value, bad = false]) =>
    element("div", {}, element("dt", {}, name), element("dd", bad ? {"data-kind": "bad"} : {}, value))));
}

function showChatGroups(report) {
  const {groups} = report.chat, bad = chatVerdict(report)[1] === "bad", faults = kChatFaults.filter(([key]) => key in (groups[0] ?? {}));
  byId("chat-groups-figure").hidden = groups.length === 0;
  fillTable("chat-groups", ["url", "subscribers", "expected", "delivered", ...faults.map(([, name]) => name), "fan-out p50", "p99", "max"].map(name => ({name})), groups.map(group => {
    const ms = key => group.fanout_ms?.count > 0 ? Words.ms(group.fanout_ms[key]) : "–";
    return {cells: [group.url, Words.count(group.subscribers), Words.count(group.expected), Words.count(group.delivered),
      ...faults.map(([key]) => ({text: Words.count(group[key]), kind: bad && group[key] > 0 ? "bad" : null})), ms("p50"), ms("p99"), ms("max")]};
  }));
}

function showChat({report, curves}) {
  const {chat, config} = report;
  byId("chat").hidden = !chat;
  if (!chat) return;
  const publish = chat.publishers > 0 ? `${Words.count(chat.publishers)} of them publish${chat.publishers === 1 ? "es" : ""} ${Words.number(config.rate)} a second` : "beside the HTTP load";
  byId("chat-note").textContent = `${Words.count(chat.subscribers)} subscribers, ${publish}`;
  const [words, kind] = chatVerdict(report);
  byId("chat-verdict").replaceChildren(element("span", {class: "badge", "data-kind": kind}, words));
  showChatFaults(report);
  showChatFacts(report);
  showChatTimes(report, curves);
  showChatGroups(report);
}
