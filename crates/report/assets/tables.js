// The tables of a moment: who holds most, and what waits for other streams.

const HOLDERS_MAX = 50;
const WAITING_MAX = 30;
const STREAMS_MAX = 12;
const holders = { by: "stack" };

function stackList(stack) {
  const frames = framesOf(stack);
  if (frames.length === 0) return make("span", { class: "quiet" }, "no stack was recorded");
  return make("ol", { class: "stack" }, ...frames.map((frame, depth) => {
    const own = model.frames[model.stacks[stack][depth]][3];
    return make("li", { class: own ? "" : "foreign" }, `${frame.name}  ${frame.file}:${frame.line}`);
  }));
}

function stackDetails(stack) {
  const frames = framesOf(stack);
  if (frames.length === 0) return make("span", { class: "quiet" }, "none recorded");
  const first = frames.findIndex((_, depth) => model.frames[model.stacks[stack][depth]][3]);
  const frame = frames[Math.max(0, first)];
  const summary = `${frame.name} ${shortPath(frame.file)}:${frame.line}`;
  const details = make("details", {}, make("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(stackList(stack));
  });
  return details;
}

function groupedHolders(moment) {
  const { life } = model;
  const groups = new Map();
  for (const index of liveAt(moment)) {
    const [owner, stack] = [life.owner[index], life.stack[index]];
    const key = holders.by === "owner" ? owner
      : `${stack} ${stack < 0 ? `${owner} ${life.requested[index]}` : owner}`;
    let group = groups.get(key);
    if (!group) groups.set(key, group = { owner, stack, bytes: 0, count: 0, pending: 0, largest: -1 });
    group.bytes += life.bytes[index];
    group.count += 1;
    if (isPending(index, moment)) group.pending += life.bytes[index];
    if (group.largest < 0 || life.bytes[group.largest] < life.bytes[index]) group.largest = index;
  }
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes);
}

function drawHolders() {
  const panel = byId("view-holders");
  if (panel.hidden) return;
  const groups = groupedHolders(timeline.moment);
  const total = groups.reduce((sum, group) => sum + group.bytes, 0);
  const search = byId("search").value.trim().toLowerCase();
  const matches = (group) => !search || model.owners[group.owner].toLowerCase().includes(search)
    || framesOf(group.stack).some((it) => `${it.name} ${it.file}`.toLowerCase().includes(search));
  const shown = groups.filter(matches).slice(0, HOLDERS_MAX);
  const rows = shown.map((group) => make("tr", {},
    make("td", { class: "number" }, bytesText(group.bytes)),
    make("td", { class: "number" }, shareText(group.bytes, total), " ",
      make("span", { class: "bar", style: `width:${Math.max(1, (60 * group.bytes) / shown[0].bytes)}px` })),
    make("td", { class: "number" }, countText(group.count)),
    make("td", { class: "text", title: model.owners[group.owner] }, ownerName(group.owner),
      0 < group.pending ? ` (${bytesText(group.pending)} pending free)` : ""),
    make("td", { class: "number" }, blockLink(group.largest, bytesText(model.life.bytes[group.largest]))),
    make("td", { class: "text" }, stackDetails(group.stack))));
  const button = (by, label) => make("button", { type: "button", "aria-pressed": String(holders.by === by),
    onclick: () => { holders.by = by; drawLater("holders"); } }, label);
  const where = timeline.moment === stateSeries().peakMoment ? "the peak" : `event ${countText(timeline.moment)}`;
  const rest = groups.length - shown.length;
  panel.replaceChildren(
    make("div", { class: "line small" }, make("b", {}, `Top holders at ${where}: ${bytesText(total)}`),
      make("span", { class: "choices", role: "group", "aria-label": "Group by" }, button("stack", "By stack"), button("owner", "By owner")),
      make("span", { class: "quiet" }, 0 < rest ? `${countText(rest)} more not shown` : "")),
    make("div", { class: "wide" }, make("table", {}, headRow(["Bytes#", "Share#", "Blocks#", "Owner", "Largest#", "Example stack"]),
      make("tbody", {}, ...rows))));
}

// Names that end with # head numbers.
function headRow(names) {
  return make("thead", {}, make("tr", {}, ...names.map((name) =>
    make("th", { class: name.endsWith("#") ? "number" : "", scope: "col" }, name.replace("#", "")))));
}

function blockLink(index, text) {
  return make("button", { type: "button", class: "link", onclick: () => chooseBlock(index, true) }, text);
}

// How long a block was or is kept after its free: as far as the trace goes.
function waitText(index) {
  const { life } = model;
  const [freed, completed] = [life.freed[index], life.completed[index]];
  const until = completed === NEVER ? model.end : completed;
  const events = `${countText(until - freed)} events`;
  const time = model.hasTime ? ` (${timeText(model.times[until] - model.times[freed])})` : "";
  return completed === NEVER ? `not over when the trace ends, after ${events}${time}` : `${events}${time}`;
}

function drawWaiting() {
  const panel = byId("view-waiting");
  if (panel.hidden) return;
  const { life } = model;
  const waiting = liveAt(timeline.moment).filter((index) => isPending(index, timeline.moment));
  const streams = model.streams.map((_, stream) => ({ stream, bytes: 0, count: 0, oldest: -1 }));
  for (const index of waiting) {
    const it = streams[life.stream[index]];
    it.bytes += life.bytes[index];
    it.count += 1;
    if (it.oldest < 0 || life.freed[index] < life.freed[it.oldest]) it.oldest = index;
  }
  const held = streams.filter((it) => 0 < it.count).sort((a, b) => b.bytes - a.bytes);
  const most = held.length === 0 ? 1 : held[0].bytes;
  const streamRows = held.map((it) => make("tr", {},
    make("td", {}, streamName(it.stream)),
    make("td", { class: "number" }, bytesText(it.bytes)),
    make("td", {}, make("span", { class: "bar", style: `width:${(160 * it.bytes) / most}px;background:var(--pending)` })),
    make("td", { class: "number" }, countText(it.count)),
    make("td", {}, blockLink(it.oldest, sinceText(it.oldest)))));
  const largest = waiting.slice().sort((a, b) => life.bytes[b] - life.bytes[a]).slice(0, WAITING_MAX);
  const blockRows = largest.map((index) => make("tr", {},
    make("td", { class: "number" }, blockLink(index, bytesText(life.bytes[index]))),
    make("td", {}, streamName(life.stream[index])),
    make("td", { class: "text" }, ownerName(life.owner[index])),
    make("td", {}, waitText(index)),
    ...(model.awaited ? [make("td", {}, awaitedText(index))] : [])));
  panel.replaceChildren(make("p", {}, waitingText(waiting)),
    ...(waiting.length === 0 ? [] : [
      make("div", { class: "wide" }, make("table", {}, headRow(["Home stream", "Pending#", "", "Blocks#", "Oldest, freed"]), make("tbody", {}, ...streamRows))),
      make("h3", {}, "Largest that wait"),
      make("div", { class: "wide" }, make("table", {}, headRow(["Bytes#", "Home stream", "Owner", "Kept after its free", ...(model.awaited ? ["Waits for"] : [])]), make("tbody", {}, ...blockRows))),
    ]));
}

function sinceText(index) {
  const freed = model.life.freed[index];
  const events = `${countText(timeline.moment - freed)} events ago`;
  return model.hasTime ? `${events} (${timeText(model.times[timeline.moment] - model.times[freed])})` : events;
}

function streamList() {
  const names = model.streams.slice(0, STREAMS_MAX).map((_, stream) => streamName(stream));
  const rest = model.streams.length - names.length;
  return names.join(", ") + (0 < rest ? ` and ${countText(rest)} more` : "");
}

function waitingText(waiting) {
  const bytes = waiting.reduce((sum, index) => sum + model.life.bytes[index], 0);
  const lacks = model.awaited ? "A block waits until the last operation that used it has ended on the device, "
    + "or until its memory is handed out again behind an order that the allocator knew." : "A PyTorch snapshot does not say which streams used a block (record_stream leaves no entry); "
    + "it says when the free was asked for and when it was complete, which is when PyTorch saw those streams done, "
    + "asked at a later allocation.";
  if (waiting.length === 0) return `Nothing waits for another stream at this moment. ${lacks}`;
  const others = model.streams.length < 2 ? "" : ` Streams seen in this trace: ${streamList()}.`;
  return `${bytesText(bytes)} in ${countText(waiting.length)} blocks were freed and wait for other streams. ${lacks}${others}`;
}
