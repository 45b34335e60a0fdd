// Numbers as people read them.

const known = value => value !== null && value !== undefined && Number.isFinite(value);

const Words = {
  count: value => known(value) ? Math.round(value).toLocaleString("en") : "–",

  // Three digits or so: 0.42, 8.1, 37, 1,240.
  number(value) {
    if (!known(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value), digits = size < 1 ? 2 : size < 10 ? 1 : 0;
    return value.toLocaleString("en", {maximumFractionDigits: digits});
  },

  ms: value => !known(value) ? "–" : value >= 10000 ? `${Words.number(value / 1000)} s` : `${Words.number(value)} ms`,
  percent: value => known(value) ? `${Words.number(value)} %` : "–",
  // Of a part: never 100 % while something is missing.
  share(part, whole) {
    if (!(whole > 0)) return "–";
    const percent = 100 * part / whole;
    return part < whole && percent > 99.99 ? "> 99.99 %" : part > 0 && percent < 0.01 ? "< 0.01 %" : `${+percent.toFixed(2)} %`;
  },

  bytes(value) {
    if (!known(value)) return "–";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    for (; value >= 1024 && unit < units.length - 1; value /= 1024) ++unit;
    return `${Words.number(value)} ${units[unit]}`;
  },

  // 0:07, 3:20, 1:02:00
  clock(total) {
    const s = Math.round(total), two = value => String(value).padStart(2, "0");
    return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
  },
  seconds: value => known(value) ? `${value < 100 ? +value.toFixed(2) : Math.round(value).toLocaleString("en")} s` : "–",
};
