// Starts the page, and ties pictures, keys, search and address together.
//
// The part of the address behind # says what is shown and can be changed by hand or by a test:
// #t=EVENT&mode=state|stream|owner|pending&axis=events|time&view=flame|segments|holders|waiting|block
// &from=UNIT&to=UNIT&block=0xADDRESS&search=TEXT&theme=light|dark

const VIEWS = { flame: "Flamegraph", segments: "Segment map", holders: "Top holders", waiting: "Waiting", block: "One block" };
const DRAWERS = {
  timeline: drawTimeline,
  overlay: drawOverlay,
  moment: drawMoment,
  flame: drawFlame,
  segments: drawSegments,
  holders: drawHolders,
  waiting: drawWaiting,
  block: () => { drawBlock(); drawSegments(); drawOverlay(); },
};
const toDraw = new Set();

// Draws in the next frame, once, whatever asks for it until then.
function drawLater(what) {
  if (toDraw.size === 0) requestAnimationFrame(drawNow);
  toDraw.add(what);
}

function drawNow() {
  const list = [...toDraw];
  toDraw.clear();
  for (const what of list) DRAWERS[what]();
  rememberInAddress();
}

function drawMoment() {
  const { moment } = timeline;
  byId("readout").replaceChildren(...readoutText(moment).flatMap((part, index) =>
    [index === 0 ? "" : " · ", make(index === 0 ? "b" : "span", {}, part)]));
  const canvas = byId("timeline");
  canvas.setAttribute("aria-valuenow", moment);
  canvas.setAttribute("aria-valuetext", readoutText(moment).join(", "));
  const holes = holesAt(moment);
  byId("fragmentation-now").textContent = `${bytesText(holes.free)} free in ${countText(holes.count)} holes, the largest `
    + `${bytesText(holes.largest)}: ${shareText(holes.free - holes.largest, holes.free)} of it is fragmented`;
  drawOverlay();
  drawFragmentation();
  drawLegend();
  for (const draw of [drawFlame, drawSegments, drawHolders, drawWaiting, drawBlock]) draw();
}

function showView(view) {
  for (const name of Object.keys(VIEWS)) {
    byId(`view-${name}`).hidden = name !== view;
    const tab = byId(`tab-${name}`);
    tab.setAttribute("aria-selected", String(name === view));
    tab.tabIndex = name === view ? 0 : -1;
  }
  drawLater("moment");
}

function shownView() {
  return Object.keys(VIEWS).find((name) => !byId(`view-${name}`).hidden);
}

function setMode(mode) {
  timeline.mode = mode;
  pressed("modes", mode);
  drawLater("timeline");
}

function pressed(group, value) {
  for (const button of byId(group).children) {
    button.setAttribute("aria-pressed", String(button.dataset.value === value));
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  drawLater("timeline");
  drawLater("moment");
}

function showHint(text, event) {
  const hint = byId("hint");
  hint.textContent = text;
  hint.hidden = false;
  const { width, height } = hint.getBoundingClientRect();
  const left = event.clientX + 14 + width < innerWidth ? event.clientX + 14 : Math.max(4, event.clientX - width - 14);
  const top = event.clientY + 16 + height < innerHeight ? event.clientY + 16 : Math.max(4, event.clientY - height - 12);
  hint.style.left = `${left}px`;
  hint.style.top = `${top}px`;
}

function hideHint() {
  byId("hint").hidden = true;
}

function search(text) {
  const query = text.trim();
  flame.search = "";
  if (/^0x[0-9a-f]+$/i.test(query)) {
    const found = lifeAtAddress(Number(BigInt(query) - model.addressBase), timeline.moment);
    byId("search").setAttribute("aria-invalid", String(found < 0));
    if (0 <= found) chooseBlock(found, true);
    return;
  }
  byId("search").removeAttribute("aria-invalid");
  flame.search = query.toLowerCase();
  drawLater("flame");
  drawLater("holders");
}

const KEYS = {
  "+": () => zoomBy(0.5),
  "=": () => zoomBy(0.5),
  "-": () => zoomBy(2),
  "0": () => setView(0, axisEnd()),
  p: () => setMoment(stateSeries().peakMoment),
  o: () => {
    const next = model.failed.find((it) => timeline.moment < it.moment) || model.failed[0];
    if (next) setMoment(next.moment);
  },
  "/": () => byId("search").focus(),
  "?": () => byId("help").showModal(),
  d: () => byId("theme").click(),
  ArrowLeft: (event) => setMoment(timeline.moment - stepOf(event)),
  ArrowRight: (event) => setMoment(timeline.moment + stepOf(event)),
  PageUp: () => setMoment(timeline.moment - pageStep()),
  PageDown: () => setMoment(timeline.moment + pageStep()),
  Home: () => setMoment(0),
  End: () => setMoment(model.end),
};

function stepOf(event) {
  return event.shiftKey ? Math.max(1, Math.round(pageStep() / 10)) : 1;
}

function pageStep() {
  return Math.max(1, Math.round((momentOf(timeline.to) - momentOf(timeline.from)) / 10));
}

function wireKeys() {
  document.addEventListener("keydown", (event) => {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) {
      if (event.key === "Escape") target.blur();
      return;
    }
    const isMove = /^(Arrow|Page|Home|End)/.test(event.key);
    if (isMove && target !== byId("timeline") && target !== document.body) return;
    const mode = Object.keys(MODES)[Number(event.key) - 1];
    if (mode) setMode(mode);
    else if (event.key in KEYS) KEYS[event.key](event);
    else return;
    event.preventDefault();
  });
}

function wireControls() {
  const choice = (value, label, title, choose) => make("button", { type: "button", "data-value": value, "aria-pressed": "false", title, onclick: () => choose(value) }, label);
  for (const [mode, { label, told }] of Object.entries(MODES)) {
    const button = choice(mode, label, told, setMode);
    button.disabled = mode === "pending" && !hasPending();
    byId("modes").append(button);
  }
  byId("axes").append(choice("events", "Events", "one step for each event", setAxis), choice("time", "Time", "as the clock went", setAxis));
  byId("axes").lastChild.disabled = !model.hasTime;
  const names = Object.keys(VIEWS);
  for (const name of names) {
    byId("views").append(make("button", { id: `tab-${name}`, type: "button", role: "tab", "aria-controls": `view-${name}`, onclick: () => showView(name) }, VIEWS[name]));
  }
  byId("views").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const name = names[(names.indexOf(shownView()) + step + names.length) % names.length];
    showView(name);
    byId(`tab-${name}`).focus();
    event.preventDefault();
    event.stopPropagation();
  });
  byId("zoom-in").addEventListener("click", KEYS["+"]);
  byId("zoom-out").addEventListener("click", KEYS["-"]);
  byId("zoom-all").addEventListener("click", KEYS["0"]);
  byId("to-peak").addEventListener("click", KEYS.p);
  byId("theme").addEventListener("click", () =>
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  byId("help-open").addEventListener("click", KEYS["?"]);
  byId("search").addEventListener("input", (event) => search(event.target.value));
  window.addEventListener("resize", () => { drawLater("timeline"); drawLater("moment"); });
  window.addEventListener("hashchange", () => obey(location.hash));
}

function figures() {
  const state = stateSeries();
  const [allocated, pending] = levelsAt(state, state.peakMoment);
  const peakReserved = stepPeak(model.reserved, 0, model.end);
  const list = [["peak active", bytesText(state.peakTotal)],
    ...(hasPending() ? [["of it allocated", bytesText(allocated)], ["of it pending free", bytesText(pending)]] : []),
    ["peak reserved", model.hasReserved ? bytesText(peakReserved) : "not recorded"],
    ...(model.hasReserved ? [["active of reserved", shareText(state.peakTotal, peakReserved)]] : []),
    ["out of memory", model.failed.length === 0 ? "never" : `${countText(model.failed.length)} ×`],
    ["blocks", countText(model.life.count)], ["entries", countText(model.entries[model.end])],
    ["streams", countText(model.streams.length)]];
  if (model.hasTime) list.push(["time", timeText(model.times[model.end] - model.times[0])]);
  byId("figures").replaceChildren(...list.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const notes = model.notes.map((note) => make("p", { class: "note" }, note));
  for (const failed of model.failed.slice(-3)) {
    notes.push(make("p", { class: "note alarm" }, "Out of memory: a request of ", bytesText(failed.bytes), " found no room at ",
      momentLink(failed.moment, `event ${countText(failed.moment)}`), `, while the device had ${bytesText(failed.device_free)} free${2 * failed.bytes < failed.device_free ? ", so a limit set for the process was likely reached" : ""}. `,
      stackDetails(failed.stack)));
  }
  byId("notes").replaceChildren(...notes);
}

function helpText() {
  const keys = [["← →", "move the moment by one event (with Shift: by a hundredth of the view)"],
    ["Page Up, Page Down", "by a tenth of the view"], ["Home, End", "to the beginning, to the end"],
    ["+ −", "zoom in, zoom out"], ["0", "show everything"], ["p", "to the peak"], ["o", "to the next request that found no room"],
    ["1 2 3 4", "divide by state, stream, owner, pending"], ["/", "search"], ["d", "light or dark"],
    ["Tab", "from one picture to the next; arrows and Enter walk the flamegraph and the segment map"], ["?", "this help"]];
  byId("help-text").append(
    make("p", {}, "The picture on top shows how many bytes were allocated, freed but waiting for other streams, and cached by PyTorch; "
      + "the line is what PyTorch had reserved from the driver. Each column shows the highest moment within it, so no peak is lost. "
      + "Click to choose a moment; everything below shows that moment. Wheel zooms, a drag moves the view or, on the whole, chooses a part; Shift with a drag always chooses."),
    make("p", {}, "Sizes are rounded up to 512 bytes as PyTorch does. A free that was complete at once is one event."),
    make("table", {}, make("tbody", {}, ...keys.map(([key, what]) => make("tr", {}, make("td", {}, make("kbd", {}, key)), make("td", {}, what))))));
}

// What is shown, as it stands in the address.
function state() {
  return { t: timeline.moment, mode: timeline.mode, axis: timeline.axis, view: shownView(),
    from: Math.round(timeline.from), to: Math.round(timeline.to),
    block: chosenBlock < 0 ? null : addressText(model.life.address[chosenBlock]),
    search: byId("search").value || null, theme: document.documentElement.dataset.theme };
}

let remembered = "";

function rememberInAddress() {
  const parts = Object.entries(state()).filter(([name, value]) => value !== null && name !== "theme");
  const hash = `#${new URLSearchParams(parts.map(([name, value]) => [name, String(value)]))}`;
  if (hash !== remembered) {
    remembered = hash;
    history.replaceState(null, "", hash);
  }
}

function obey(hash) {
  if (hash === remembered) return;
  const asked = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name) => (asked.has(name) && Number.isFinite(Number(asked.get(name))) ? Number(asked.get(name)) : null);
  if (asked.get("theme") === "dark" || asked.get("theme") === "light") setTheme(asked.get("theme"));
  if (asked.get("mode") in MODES) setMode(asked.get("mode"));
  if (["events", "time"].includes(asked.get("axis"))) setAxis(asked.get("axis"));
  if (number("from") !== null && number("to") !== null) setView(number("from"), number("to"));
  if (number("t") !== null) setMoment(number("t"));
  if (asked.get("view") in VIEWS) showView(asked.get("view"));
  if (asked.has("search")) {
    byId("search").value = asked.get("search");
    search(asked.get("search"));
  }
  if (/^0x[0-9a-f]+$/i.test(asked.get("block") || "")) {
    const found = lifeAtAddress(Number(BigInt(asked.get("block")) - model.addressBase), timeline.moment);
    if (0 <= found) chooseBlock(found, false);
  }
}

async function start() {
  const begun = performance.now();
  const packed = byId("recorded");
  const bytes = await inflate(packed.textContent);
  packed.remove();
  buildModel(decode(bytes));
  const asked = new URLSearchParams(location.hash.slice(1)).get("theme");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(asked || (prefersDark.matches ? "dark" : "light"));
  prefersDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  wireControls();
  wireTimeline();
  wireFlame();
  wireSegments();
  wireKeys();
  figures();
  helpText();
  byId("timeline").setAttribute("aria-valuemax", model.end);
  setMode("state");
  setAxis("events");
  setView(0, axisEnd());
  timeline.moment = stateSeries().peakMoment;
  showView("flame");
  obey(location.hash);
  drawNow();
  document.documentElement.dataset.ready = String(Math.round(performance.now() - begun));
}

globalThis.wellspring = { state, obey, seriesOf, levelsAt, liveAt, segmentsAt, holesAt, model: () => model };

start().catch((error) => {
  byId("notes").replaceChildren(make("p", { class: "note alarm" },
    `This page cannot be shown: ${error.message}. It needs a browser of 2023 or later.`));
  throw error;
});
