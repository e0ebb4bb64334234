// The main picture: stacked levels over time, with a view that zooms and a cursor that moves.

const timeline = { mode: "state", axis: "events", from: 0, to: 1, moment: 0, hover: null,
  drawn: null, drag: null };
const MARGIN = { left: 74, right: 14, top: 8, bottom: 24 };
const LANE = 15;
const LANES_MAX = 3;

function axisEnd() {
  return timeline.axis === "time" ? model.times[model.end] - model.times[0] : model.end + 1;
}

function unitOf(moment) {
  return timeline.axis === "time" ? model.times[moment] - model.times[0] : moment;
}

function momentOf(unit) {
  const place = timeline.axis === "time" ? above(model.times, model.times[0] + unit) - 1
    : Math.floor(unit);
  return Math.max(0, Math.min(model.end, place));
}

function prepareCanvas(canvas) {
  const scale = window.devicePixelRatio || 1;
  const width = Math.max(60, canvas.clientWidth);
  const height = Math.max(40, canvas.clientHeight);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  return { context, width, height };
}

// One entry a pixel: the highest moment in it, its levels, and the most reserved.
function columnsOf(series, width) {
  const columns = [];
  const step = (timeline.to - timeline.from) / width;
  for (let x = 0; x < width; x += 1) {
    const from = momentOf(timeline.from + step * x);
    const last = momentOf(timeline.from + step * (x + 1) - step * 1e-6);
    const to = Math.max(from, last);
    const before = columns[x - 1];
    if (before && from === to && before.moment === from && before.from === to) {
      columns.push(before);
      continue;
    }
    const moment = peakBetween(series, from, to);
    columns.push({ from, moment, levels: levelsAt(series, moment),
      reserved: stepPeak(model.reserved, from, to), reservedThen: stepLevel(model.reserved, moment),
      unmapped: stepLevel(model.unmapped, moment) });
  }
  return columns;
}

function lanesShown() {
  return Math.min(LANES_MAX, model.annotations.reduce((most, it) => Math.max(most, it.depth + 1), 0));
}

// Ticks at one, two or five (or powers of two) of a unit that fit in the room.
function ticks(from, to, room, gap, isBytes) {
  const wanted = Math.max(1, Math.floor(room / gap));
  const raw = (to - from) / wanted;
  let step;
  if (isBytes) {
    step = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(raw, 1))));
  } else {
    const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1e-9)));
    step = [1, 2, 5, 10].map((it) => it * power).find((it) => raw <= it);
    step = Math.max(1, step);
  }
  const list = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) list.push(at);
  return list;
}

function drawTimeline() {
  const canvas = byId("timeline");
  const { context, width, height } = prepareCanvas(canvas);
  const series = seriesOf(timeline.mode);
  const top = MARGIN.top + lanesShown() * LANE + (0 < model.failed.length ? LANE : 0);
  const frame = { left: MARGIN.left, top, width: width - MARGIN.left - MARGIN.right,
    height: height - top - MARGIN.bottom };
  const columns = columnsOf(series, Math.floor(frame.width));
  const showsReserved = timeline.mode !== "pending" && model.hasReserved;
  let most = 1;
  for (const column of columns) {
    const total = column.levels.reduce((sum, level) => sum + level, 0);
    most = Math.max(most, total);
    if (showsReserved) most = Math.max(most, column.reserved);
    if (timeline.mode === "state") most = Math.max(most, column.reservedThen + column.unmapped);
  }
  const scale = { most: most * 1.06, frame, columns, series };
  context.fillStyle = color("--panel");
  context.fillRect(frame.left, frame.top, frame.width, frame.height);
  drawGrid(context, scale);
  drawBands(context, scale);
  if (showsReserved) drawReserved(context, scale);
  drawTimeAxis(context, frame, height);
  drawMarks(context, frame);
  timeline.drawn = { ...scale, image: copyOf(canvas) };
  drawOverlay();
  drawFragmentation();
  refineHoles();
  drawLegend();
}

function copyOf(canvas) {
  const copy = document.createElement("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height;
  copy.getContext("2d").drawImage(canvas, 0, 0);
  return copy;
}

function drawGrid(context, { most, frame }) {
  context.textAlign = "right";
  for (const level of ticks(0, most, frame.height, 30, true)) {
    const y = frame.top + frame.height * (1 - level / most);
    context.fillStyle = color("--line");
    context.fillRect(frame.left, Math.round(y), frame.width, 1);
    context.fillStyle = color("--quiet");
    context.fillText(level === 0 ? "0" : bytesText(level), frame.left - 7, y);
  }
}

function drawBands(context, { most, frame, columns, series }) {
  const colors = series.categories.map(categoryColor);
  const perByte = frame.height / most;
  const bottom = frame.top + frame.height;
  const isState = timeline.mode === "state";
  const [cached, unmapped] = [color("--cached"), color("--unmapped")];
  columns.forEach((column, x) => {
    let base = 0;
    const band = (bytes, fill) => {
      if (0 < bytes) {
        context.fillStyle = fill;
        context.fillRect(frame.left + x, bottom - (base + bytes) * perByte, 1, bytes * perByte);
        base += bytes;
      }
    };
    column.levels.forEach((bytes, category) => band(bytes, colors[category]));
    if (isState) {
      band(column.reservedThen - base, cached);
      band(column.unmapped, unmapped);
    }
  });
}

function drawReserved(context, { most, frame, columns }) {
  context.strokeStyle = color("--reserved");
  context.lineWidth = 1.5;
  context.beginPath();
  columns.forEach((column, x) => {
    const y = frame.top + frame.height * (1 - column.reserved / most);
    if (x === 0) context.moveTo(frame.left, y);
    context.lineTo(frame.left + x, y);
    context.lineTo(frame.left + x + 1, y);
  });
  context.stroke();
}

function drawTimeAxis(context, frame, height) {
  const y = height - MARGIN.bottom + 13;
  context.textAlign = "center";
  const isTime = timeline.axis === "time";
  for (const unit of ticks(timeline.from, timeline.to, frame.width, 110, false)) {
    const x = xOf(unit, frame);
    context.fillStyle = color("--quiet");
    context.fillRect(Math.round(x), frame.top + frame.height, 1, 4);
    const text = unit === 0 ? "0" : isTime ? timeText(unit).replace(/\.?0+ /, (zeros) => (zeros.startsWith(".") ? " " : zeros)) : countText(unit);
    const half = context.measureText(text).width / 2;
    const room = frame.left + frame.width + MARGIN.right - half;
    context.fillText(text, Math.min(Math.max(x, frame.left), room), y);
  }
  context.textAlign = "left";
  context.fillText(isTime ? "time" : "events", 6, y);
}

function xOf(unit, frame) {
  return frame.left + (frame.width * (unit - timeline.from)) / (timeline.to - timeline.from);
}

// Annotations as bars above the picture, and requests that found no room.
function drawMarks(context, frame) {
  const lanes = lanesShown();
  context.save();
  context.beginPath();
  context.rect(frame.left, 0, frame.width, frame.top + frame.height);
  context.clip();
  context.textAlign = "left";
  const drawnTo = new Float64Array(lanes).fill(-1);
  model.annotations.forEach((annotation, index) => {
    if (lanes <= annotation.depth) return;
    const from = xOf(unitOf(annotation.from), frame);
    const to = xOf(unitOf(Math.min(annotation.to, model.end)), frame);
    // Out of view, or within a pixel that is drawn already.
    if (to < frame.left || frame.left + frame.width < from || to < drawnTo[annotation.depth]) return;
    drawnTo[annotation.depth] = Math.ceil(to);
    const y = MARGIN.top + annotation.depth * LANE;
    const width = Math.max(1, to - from - 1);
    context.fillStyle = index % 2 === 0 ? color("--cached") : color("--line");
    context.fillRect(from, y, width, LANE - 2);
    if (34 < width) {
      context.save();
      context.beginPath();
      context.rect(from, y, width - 3, LANE);
      context.clip();
      context.fillStyle = color("--ink");
      context.fillText(annotation.name, Math.max(from, frame.left) + 3, y + LANE / 2 - 0.5);
      context.restore();
    }
  });
  drawFailed(context, frame, lanes);
  context.restore();
}

function drawFailed(context, frame, lanes) {
  const y = MARGIN.top + lanes * LANE;
  let labelEnd = -1;
  context.fillStyle = color("--alarm");
  for (const failed of model.failed) {
    const x = xOf(unitOf(failed.moment), frame);
    for (let at = frame.top; at < frame.top + frame.height; at += 8) {
      context.fillRect(x, at, 1.5, 5);
    }
    context.beginPath();
    context.moveTo(x - 5, y + 3);
    context.lineTo(x + 6, y + 3);
    context.lineTo(x + 0.5, y + 12);
    context.fill();
    const text = "out of memory";
    const width = context.measureText(text).width;
    const start = x - width - 9;
    if (labelEnd < start && frame.left <= start) {
      context.textAlign = "right";
      context.fillText(text, x - 8, y + LANE / 2);
      labelEnd = x;
    }
  }
}

// The cursor, the moment under the pointer, and the block that is looked at: over the picture.
function drawOverlay() {
  if (!timeline.drawn) return;
  const canvas = byId("timeline");
  const context = canvas.getContext("2d");
  const { frame, image } = timeline.drawn;
  context.save();
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0);
  context.restore();
  context.save();
  context.beginPath();
  context.rect(frame.left - 6, 0, frame.width + 12, canvas.height);
  context.clip();
  if (timeline.drag && timeline.drag.selects) {
    const { startX, x } = timeline.drag;
    context.fillStyle = `${color("--accent")}44`;
    context.fillRect(Math.min(startX, x), frame.top, Math.abs(x - startX), frame.height);
  }
  if (0 <= chosenBlock) drawChosen(context, frame);
  const at = cursorX(frame);
  context.fillStyle = color("--cursor");
  context.fillRect(at - 1, frame.top, 2, frame.height);
  context.beginPath();
  context.arc(at, frame.top + frame.height, 4, 0, 7);
  context.fill();
  if (timeline.hover !== null) {
    context.fillStyle = color("--quiet");
    context.fillRect(timeline.hover, frame.top, 1, frame.height);
  }
  context.restore();
}

function cursorX(frame) {
  const half = timeline.axis === "events" ? 0.5 : 0;
  return xOf(unitOf(timeline.moment) + half, frame);
}

function drawChosen(context, frame) {
  const { life } = model;
  const from = xOf(unitOf(life.from[chosenBlock]), frame);
  const freed = xOf(unitOf(Math.min(life.freed[chosenBlock], model.end)), frame);
  const to = xOf(unitOf(Math.min(life.completed[chosenBlock], model.end)), frame);
  const y = frame.top + frame.height - 7;
  context.fillStyle = color("--paper");
  context.fillRect(from - 1, y - 1, Math.max(4, to - from + 2), 7);
  context.fillStyle = color("--accent");
  context.fillRect(from, y, Math.max(2, freed - from), 5);
  context.fillStyle = color("--pending");
  context.fillRect(freed, y, Math.max(0, to - freed), 5);
}

function drawLegend() {
  const series = seriesOf(timeline.mode);
  const levels = levelsAt(series, timeline.moment);
  const item = (name, fill, bytes, isStroke) => make("span", { title: name },
    make("i", { class: isStroke ? "stroke" : "", style: isStroke ? `border-color:${fill}` : `background:${fill}` }),
    make("b", {}, name), bytesText(bytes));
  const isShown = (index) => (series.categories[index].isRest ? 0 < levels[index]
    : timeline.mode !== "state" || index === 0 || hasPending());
  const items = series.categories.map((it, index) => item(it.name, categoryColor(it), levels[index]))
    .filter((_, index) => isShown(index));
  const active = levels.reduce((sum, level) => sum + level, 0);
  const reserved = stepLevel(model.reserved, timeline.moment);
  if (timeline.mode === "state" && model.hasReserved) {
    items.push(item("cached", color("--cached"), Math.max(0, reserved - active)));
    if (0 < model.unmapped.moments.length) {
      const unmapped = stepLevel(model.unmapped, timeline.moment);
      items.push(item("unmapped again", color("--unmapped"), unmapped));
    }
  }
  if (timeline.mode !== "pending" && model.hasReserved) items.push(item("reserved", color("--reserved"), reserved, true));
  byId("legend").replaceChildren(...items);
}

function setView(from, to) {
  const end = axisEnd();
  const least = timeline.axis === "events" ? 4 : Math.min(end, 2);
  const width = Math.min(end, Math.max(least, to - from));
  timeline.from = Math.max(0, Math.min(end - width, from));
  timeline.to = timeline.from + width;
  drawLater("timeline");
}

function zoomBy(factor, around) {
  const at = around === undefined ? unitOf(timeline.moment) : around;
  setView(at - (at - timeline.from) * factor, at + (timeline.to - at) * factor);
}

function setAxis(axis) {
  if (axis === "time" && !model.hasTime) return;
  const [from, to] = [momentOf(timeline.from), momentOf(timeline.to)];
  const isAll = timeline.from === 0 && axisEnd() <= timeline.to;
  timeline.axis = axis;
  forgetFineHoles();
  if (isAll) setView(0, axisEnd());
  else setView(unitOf(from), Math.max(unitOf(from) + 1, unitOf(to)));
  pressed("axes", axis);
}

// The cursor goes to a moment, and into view.
function setMoment(moment) {
  timeline.moment = Math.max(0, Math.min(model.end, Math.round(moment)));
  const unit = unitOf(timeline.moment);
  const width = timeline.to - timeline.from;
  if (unit < timeline.from || timeline.to <= unit) {
    setView(unit - width / 2, unit + width / 2);
  }
  drawLater("moment");
}

function readoutText(moment) {
  const series = stateSeries();
  const [allocated, pending] = levelsAt(series, moment);
  const reserved = stepLevel(model.reserved, moment);
  const kind = moment === 0 ? "before the first event" : KINDS[model.kinds[moment - 1]];
  const parts = [`event ${countText(moment)} of ${countText(model.end)} (${kind})`];
  if (model.hasTime) parts.push(timeText(model.times[moment] - model.times[0]));
  parts.push(`allocated ${bytesText(allocated)}`);
  if (0 < pending) parts.push(`pending free ${bytesText(pending)}`);
  if (!model.hasReserved) return parts;
  parts.push(`cached ${bytesText(Math.max(0, reserved - allocated - pending))}`);
  parts.push(`reserved ${bytesText(reserved)}`);
  return parts;
}

function hoverText(column, y) {
  const { series, most, frame } = timeline.drawn;
  const lines = readoutText(column.moment);
  let base = 0;
  const level = (1 - (y - frame.top) / frame.height) * most;
  column.levels.forEach((bytes, category) => {
    if (base <= level && level < base + bytes && timeline.mode !== "state") {
      lines.push(`▸ ${series.categories[category].name}: ${bytesText(bytes)}`);
    }
    base += bytes;
  });
  for (const annotation of model.annotations) {
    if (annotation.from <= column.moment && column.moment < annotation.to) {
      lines.push(`in ${annotation.name}`);
    }
  }
  return lines.join("\n");
}

function wireTimeline() {
  const canvas = byId("timeline");
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const unitAt = (x) => {
    const { frame } = timeline.drawn;
    return timeline.from + ((x - frame.left) / frame.width) * (timeline.to - timeline.from);
  };
  const columnAt = (x) => {
    const { frame, columns } = timeline.drawn;
    return columns[Math.max(0, Math.min(columns.length - 1, Math.floor(x - frame.left)))];
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const width = timeline.to - timeline.from;
    if (event.shiftKey || Math.abs(event.deltaY) < Math.abs(event.deltaX)) {
      const by = ((event.deltaX || event.deltaY) / 800) * width;
      setView(timeline.from + by, timeline.to + by);
    } else {
      zoomBy(1.0018 ** event.deltaY, unitAt(place(event).x));
    }
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    const { x } = place(event);
    const isAll = axisEnd() <= timeline.to - timeline.from;
    timeline.drag = { startX: x, x, from: timeline.from, to: timeline.to, moved: false,
      selects: event.shiftKey || isAll };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const { x, y } = place(event);
    const { drag } = timeline;
    timeline.hover = x;
    if (drag) {
      drag.x = x;
      drag.moved = drag.moved || 4 < Math.abs(x - drag.startX);
      if (drag.moved && !drag.selects) {
        const by = ((x - drag.startX) / timeline.drawn.frame.width) * (drag.to - drag.from);
        setView(drag.from - by, drag.to - by);
      }
    }
    showHint(hoverText(columnAt(x), y), event);
    drawLater("overlay");
  });
  const finish = (event) => {
    const { drag } = timeline;
    timeline.drag = null;
    if (!drag) return;
    if (!drag.moved) setMoment(columnAt(place(event).x).moment);
    else if (drag.selects) {
      const [from, to] = [unitAt(drag.startX), unitAt(drag.x)].sort((a, b) => a - b);
      setView(from, to);
    }
    drawLater("overlay");
  };
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", () => { timeline.drag = null; });
  canvas.addEventListener("pointerleave", () => {
    timeline.hover = null;
    hideHint();
    drawLater("overlay");
  });
}
