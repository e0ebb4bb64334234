// Numbers as people read them, and how elements are made.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function bytesText(bytes) {
  const sign = bytes < 0 ? "−" : "";
  let value = Math.abs(bytes);
  let unit = 0;
  while (1024 <= value && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || 100 <= value ? 0 : value < 10 ? 2 : 1;
  return `${sign}${value.toFixed(digits).replace(/\.?0+$/, (zeros) => (digits === 0 ? zeros : ""))} ${UNITS[unit]}`;
}

function countText(count) {
  return Math.round(count).toLocaleString("en-US");
}

function shareText(part, whole) {
  return 0 < whole ? `${((100 * part) / whole).toFixed(part * 10 < whole ? 1 : 0)} %` : "–";
}

function timeText(us) {
  const value = Math.abs(us);
  const sign = us < 0 ? "−" : "";
  if (value < 1e3) return `${sign}${Math.round(value)} µs`;
  if (value < 1e6) return `${sign}${(value / 1e3).toFixed(value < 1e4 ? 2 : 1)} ms`;
  return `${sign}${(value / 1e6).toFixed(value < 1e7 ? 3 : 2)} s`;
}

// The last two parts of a path say enough; the whole path is in the stack.
function shortName(name) {
  const match = /^(.*):(\d+)( .*)?$/.exec(name);
  if (!match) return name;
  return `${shortPath(match[1])}:${match[2]}${match[3] || ""}`;
}

function shortPath(path) {
  return path.split(/[\\/]/).slice(-2).join("/");
}

function addressText(life) {
  return `0x${(model.addressBase + BigInt(Math.round(life))).toString(16)}`;
}

// A range of sizes between powers of two, as `512 B to 1 KiB`.
function sizeClass(bytes) {
  if (bytes < 512) return "below 512 B";
  const low = 2 ** Math.floor(Math.log2(bytes));
  return `${bytesText(low)} to ${bytesText(2 * low)}`;
}

function byId(id) {
  return document.getElementById(id);
}

// An element with attributes and children; a text is never read as markup.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
