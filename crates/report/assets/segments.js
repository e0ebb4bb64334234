// The segments of a moment, each a row: blocks as rectangles, holes left open.

const SEGMENT_ROW = 20;
const SEGMENT_LABEL = 170;
const SEGMENT_LABEL_MORE = 330;
const SEGMENT_HEIGHT_MAX = 420;
const segmentMap = { rows: [], moment: -1, order: "", hits: [], row: -1, place: -1 };

function segmentRows() {
  const order = byId("segment-order").value;
  if (segmentMap.moment !== timeline.moment || segmentMap.order !== order) {
    const rows = segmentsAt(timeline.moment);
    if (order === "bytes") rows.sort((a, b) => b.bytes - a.bytes || a.address - b.address);
    if (order === "free") rows.sort((a, b) => (b.bytes - b.used) - (a.bytes - a.used) || a.address - b.address);
    Object.assign(segmentMap, { rows, moment: timeline.moment, order, row: -1, place: -1 });
    const free = rows.reduce((sum, row) => sum + row.bytes - row.used, 0);
    const empty = rows.filter((row) => row.blocks.length === 0);
    const emptyBytes = empty.reduce((sum, row) => sum + row.bytes, 0);
    byId("segment-told").textContent = `${countText(rows.length)} segments, ${bytesText(free)} free in them`
      + (0 < empty.length ? `, ${bytesText(emptyBytes)} of it in ${countText(empty.length)} empty segments that could be given back` : "");
  }
  return segmentMap.rows;
}

function drawSegments() {
  if (byId("view-segments").hidden) return;
  const rows = segmentRows();
  const scroll = byId("segment-scroll");
  byId("segment-height").style.height = `${rows.length * SEGMENT_ROW + 8}px`;
  const shown = Math.max(60, Math.min(SEGMENT_HEIGHT_MAX, rows.length * SEGMENT_ROW + 10));
  scroll.style.height = `${shown}px`;
  byId("segments").style.height = `${shown - 2}px`;
  byId("segments").style.marginBottom = `${2 - shown}px`;
  const { context, width, height } = prepareCanvas(byId("segments"));
  context.clearRect(0, 0, width, height);
  const tellsMore = 1 < model.streams.length || 1 < model.pools.length;
  const label = Math.min(tellsMore ? SEGMENT_LABEL_MORE : SEGMENT_LABEL, width * 0.45);
  const room = width - label - 10;
  const most = rows.reduce((sum, row) => Math.max(sum, row.bytes), 1);
  const isOneScale = byId("segment-scale").checked;
  const paint = blockPainter();
  segmentMap.hits = [];
  const first = Math.floor(scroll.scrollTop / SEGMENT_ROW);
  const last = Math.min(rows.length, first + Math.ceil(height / SEGMENT_ROW) + 1);
  for (let index = first; index < last; index += 1) {
    const row = rows[index];
    const y = index * SEGMENT_ROW - scroll.scrollTop + 4;
    const length = isOneScale ? Math.max(1, (room * row.bytes) / most) : room;
    drawSegmentLabel(context, row, label, y);
    drawSegment(context, row, { x: label, y, length, paint });
  }
}

function drawSegmentLabel(context, row, label, y) {
  context.textAlign = "right";
  context.fillStyle = color("--ink");
  context.fillText(bytesText(row.bytes), 66, y + 7);
  context.textAlign = "left";
  context.fillStyle = color("--quiet");
  const pool = row.pool === 0 ? "" : ` · pool ${model.pools[row.pool]}`;
  const kind = row.isExpandable ? " · expandable" : "";
  context.save();
  context.beginPath();
  context.rect(70, y - 3, label - 76, SEGMENT_ROW);
  context.clip();
  const used = row.used === 0 ? "empty" : `${shareText(row.used, row.bytes)} used`;
  context.fillText(`${used}${shortStream(row.stream)}${pool}${kind}`, 74, y + 7);
  context.restore();
}

function shortStream(stream) {
  return model.streams.length === 1 || model.awaited ? "" : ` · stream ${model.streams[stream].replace("0x0", "0")}`;
}

function blockPainter() {
  const by = byId("segment-color").value;
  const [allocated, pending] = [color("--allocated"), color("--pending")];
  if (by === "state") {
    return (index) => (isPending(index, timeline.moment) ? pending : allocated);
  }
  const series = seriesOf(by);
  const colors = series.categories.map(categoryColor);
  return (index) => colors[series.categoryOf[index]];
}

function drawSegment(context, row, { x, y, length, paint }) {
  const thick = SEGMENT_ROW - 6;
  const { life } = model;
  const perByte = length / row.bytes;
  context.fillStyle = color("--panel");
  context.fillRect(x, y, length, thick);
  let drawnTo = -1;
  for (const index of row.blocks) {
    const start = x + (life.address[index] - row.address) * perByte;
    const size = life.bytes[index] * perByte;
    // Thousands of blocks may share a pixel; the first of them shows it.
    if (start + size < drawnTo && index !== chosenBlock) continue;
    drawnTo = start + Math.max(0.6, size);
    context.fillStyle = paint(index);
    context.fillRect(start, y, Math.max(0.6, size - (3 < size ? 0.8 : 0)), thick);
    if (index === chosenBlock) {
      context.strokeStyle = color("--cursor");
      context.lineWidth = 2;
      context.strokeRect(start, y - 1, Math.max(3, size), thick + 2);
    }
  }
  const isChosen = row === segmentMap.rows[segmentMap.row];
  context.strokeStyle = color(isChosen ? "--accent" : "--line");
  context.lineWidth = isChosen ? 2 : 1;
  context.strokeRect(x + 0.5, y + 0.5, length - 1, thick - 1);
  segmentMap.hits.push({ row, x, y, length, perByte, thick });
}

// The block or hole under the pointer.
function segmentHit(event) {
  const box = byId("segments").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const hit = segmentMap.hits.find((it) => it.y - 2 <= y && y < it.y + it.thick + 2);
  if (!hit || x < hit.x || hit.x + hit.length < x) return null;
  const { life } = model;
  const at = hit.row.address + (x - hit.x) / hit.perByte;
  const reach = 1 / hit.perByte;
  let hole = { from: hit.row.address, to: hit.row.address + hit.row.bytes };
  for (const index of hit.row.blocks) {
    const [from, to] = [life.address[index], life.address[index] + life.bytes[index]];
    if (from <= at && at < to) return { row: hit.row, block: index };
    if (to <= at) hole.from = Math.max(hole.from, to);
    if (at < from) hole.to = Math.min(hole.to, from);
  }
  const near = hit.row.blocks.find((index) => Math.abs(life.address[index] - at) < reach);
  return near === undefined ? { row: hit.row, hole } : { row: hit.row, block: near };
}

// Up and down go from segment to segment, left and right from block to block, Enter shows its life.
function segmentKey(event) {
  const scroll = byId("segment-scroll");
  const rows = segmentRows();
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const side = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (rows.length === 0 || (!step && !side && event.key !== "Enter")) return;
  event.preventDefault();
  event.stopPropagation();
  if (event.key === "Enter") {
    if (0 <= chosenBlock) chooseBlock(chosenBlock, true);
    return;
  }
  const within = (value, count) => Math.max(0, Math.min(count - 1, value));
  segmentMap.row = within(segmentMap.row + (step || (segmentMap.row < 0 ? 1 : 0)), rows.length);
  const { blocks, bytes } = rows[segmentMap.row];
  segmentMap.place = step ? 0 : within(segmentMap.place + side, blocks.length);
  const top = segmentMap.row * SEGMENT_ROW;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  if (scroll.scrollTop + scroll.clientHeight < top + 2 * SEGMENT_ROW) {
    scroll.scrollTop = top + 2 * SEGMENT_ROW - scroll.clientHeight;
  }
  const block = blocks[segmentMap.place];
  scroll.setAttribute("aria-label", block === undefined
    ? `empty segment of ${bytesText(bytes)}` : blockHint(block).replaceAll("\n", ", "));
  chooseBlock(block === undefined ? -1 : block, false);
}

function wireSegments() {
  const scroll = byId("segment-scroll");
  scroll.addEventListener("keydown", segmentKey);
  scroll.addEventListener("scroll", () => drawLater("segments"));
  // The legend above says what the colors mean.
  byId("segment-color").addEventListener("change", (event) => setMode(event.target.value));
  for (const id of ["segment-order", "segment-color", "segment-scale"]) {
    byId(id).addEventListener("change", () => drawLater("segments"));
  }
  scroll.addEventListener("pointermove", (event) => {
    const hit = segmentHit(event);
    if (!hit) { hideHint(); return; }
    showHint(hit.block === undefined
      ? `hole of ${bytesText(hit.hole.to - hit.hole.from)}\nat ${addressText(hit.hole.from)}`
      : blockHint(hit.block), event);
  });
  scroll.addEventListener("pointerleave", hideHint);
  scroll.addEventListener("click", (event) => {
    const hit = segmentHit(event);
    if (hit && hit.block !== undefined) chooseBlock(hit.block, true);
  });
}

function blockHint(index) {
  const { life } = model;
  const state = isPending(index, timeline.moment) ? "freed, waits for other streams" : "allocated";
  return [`${bytesText(life.bytes[index])} at ${addressText(life.address[index])}`, state,
    ownerName(life.owner[index]), streamName(life.stream[index])].join("\n");
}
