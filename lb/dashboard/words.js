// Texts and numbers.

// Touches the page only when something is different: readers of the screen are told of changes.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setData(node, key, value) {
  if (node.dataset[key] !== value) node.dataset[key] = value;
}

const Words = {
  count: value => Math.round(value).toLocaleString("en"),

  // Three digits or so: 0.42, 8.1, 37, 1,240.
  number(value) {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0";
    const digits = value < 1 ? 2 : value < 10 ? 1 : 0;
    return value.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
  },

  ms: value => value >= 1000 ? `${Words.number(value / 1000)} s` : `${Words.number(value)} ms`,
  percent: value => value === null || value < 0 ? "–" : `${Math.round(value)} %`,

  bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    for (; value >= 1024 && unit < units.length - 1; value /= 1024) ++unit;
    return `${Words.number(value)} ${units[unit]}`;
  },

  clock: date => date.toLocaleTimeString("en-GB"),

  span(total) {
    const s = Math.floor(total), d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
    if (d > 0) return `${d} d ${h} h`;
    if (h > 0) return `${h} h ${m} min`;
    return m > 0 ? `${m} min ${s % 60} s` : `${s} s`;
  },
};
