// The live bytes of a moment by stack, outermost frame on top; or by stream and size without stacks.

const FLAME_ROW = 19;
const flame = { root: null, path: [], hits: [], chosen: null, moment: -1, search: "" };

function flameTree(moment) {
  const root = { name: "all live bytes", bytes: 0, count: 0, kind: "root", children: new Map() };
  const { life } = model;
  const paths = new Map();
  for (const index of liveAt(moment)) {
    const stack = life.stack[index];
    const hasStack = 0 <= stack && 0 < model.stacks[stack].length;
    const key = hasStack ? stack : `${life.stream[index]} ${life.requested[index]}`;
    let path = paths.get(key);
    if (!path) {
      path = hasStack ? stackPath(stack) : sizePath(index);
      paths.set(key, path);
    }
    let node = root;
    node.bytes += life.bytes[index];
    node.count += 1;
    for (const step of path) {
      let child = node.children.get(step.name);
      if (!child) {
        child = { ...step, bytes: 0, count: 0, children: new Map(), parent: node };
        node.children.set(step.name, child);
      }
      child.bytes += life.bytes[index];
      child.count += 1;
      node = child;
    }
  }
  return root;
}

function stackPath(stack) {
  return model.stacks[stack].map((frame) => {
    const [file, line, name, own] = model.frames[frame];
    return { name: `${model.texts[name]} ${model.texts[file]}:${line}`,
      label: `${model.texts[name]}  ${shortPath(model.texts[file])}:${line}`,
      kind: own ? "own" : "package" };
  }).reverse();
}

function sizePath(index) {
  const { life } = model;
  const path = [];
  if (0 < model.frames.length) path.push({ name: "no stack recorded", kind: "size" });
  path.push({ name: streamName(life.stream[index]), kind: "size" });
  path.push({ name: sizeClass(life.requested[index]), kind: "size" });
  path.push({ name: `requests of ${bytesText(life.requested[index])} (${countText(life.requested[index])} B)`, kind: "size" });
  return path;
}

function drawFlame() {
  if (byId("view-flame").hidden) return;
  if (flame.moment !== timeline.moment) {
    flame.root = flameTree(timeline.moment);
    flame.moment = timeline.moment;
    flame.chosen = null;
    flame.path = followed(flame.root, flame.path);
  }
  const canvas = byId("flame");
  const top = flame.path[flame.path.length - 1] || flame.root;
  const rows = flame.path.length + Math.min(60, depthBelow(top)) + 1;
  canvas.style.height = `${Math.max(120, rows * FLAME_ROW + 4)}px`;
  const { context, width } = prepareCanvas(canvas);
  flame.hits = [];
  const ancestors = [flame.root, ...flame.path].slice(0, -1);
  if (flame.path.length === 0) ancestors.length = 0;
  ancestors.forEach((node, row) => drawNode(context, node, 0, row, width, true));
  drawBelow(context, top, 0, ancestors.length, width);
  byId("flame-path").textContent = flamePathText(top);
}

// The same way down in a new tree, as far as it goes.
function followed(root, path) {
  const found = [];
  let node = root;
  for (const step of path) {
    node = node.children.get(step.name);
    if (!node) break;
    found.push(node);
  }
  return found;
}

function depthBelow(node) {
  let deepest = 0;
  const open = [[node, 0]];
  while (0 < open.length) {
    const [at, depth] = open.pop();
    deepest = Math.max(deepest, depth);
    for (const child of at.children.values()) open.push([child, depth + 1]);
  }
  return deepest;
}

function drawBelow(context, top, x, row, width) {
  const open = [[top, x, row, width]];
  while (0 < open.length) {
    const [node, left, depth, room] = open.pop();
    drawNode(context, node, left, depth, room, false);
    let at = left;
    const children = [...node.children.values()].sort((a, b) => b.bytes - a.bytes);
    for (const child of children) {
      const part = node.bytes === 0 ? 0 : (room * child.bytes) / node.bytes;
      if (0.4 < part) open.push([child, at, depth + 1, part]);
      at += part;
    }
  }
}

function drawNode(context, node, x, row, width, isAbove) {
  const y = row * FLAME_ROW;
  context.globalAlpha = isAbove ? 0.55 : 1;
  context.fillStyle = flameColor(node);
  context.fillRect(x, y, Math.max(0.5, width - 0.8), FLAME_ROW - 1.5);
  if (node === flame.chosen) {
    context.strokeStyle = color("--ink");
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, Math.max(1, width - 3), FLAME_ROW - 4);
  }
  if (30 < width) {
    context.save();
    context.beginPath();
    context.rect(x, y, width - 4, FLAME_ROW);
    context.clip();
    context.fillStyle = inkOn(context.fillStyle);
    context.textAlign = "left";
    context.fillText(`${node.label || node.name}  ${bytesText(node.bytes)}`, x + 5, y + FLAME_ROW / 2 - 0.5);
    context.restore();
  }
  context.globalAlpha = 1;
  flame.hits.push({ node, x, y, width });
}

// The program's own frames are blue, installed ones gray, what is not a frame green.
function flameColor(node) {
  const isDark = document.documentElement.dataset.theme === "dark";
  if (flame.search && node.name.toLowerCase().includes(flame.search)) return isDark ? "#f0b429" : "#e69f00";
  let hash = 0;
  for (const letter of node.name) hash = (hash * 31 + letter.codePointAt(0)) % 9973;
  const shade = (hash % 12) - 6;
  if (node.kind === "own") return hsl(205, 62, (isDark ? 36 : 72) + shade);
  if (node.kind === "package") return hsl(215, 10, (isDark ? 30 : 82) + shade / 2);
  if (node.kind === "size") return hsl(160, 32, (isDark ? 30 : 76) + shade);
  return isDark ? "#39424d" : "#d0d7de";
}

function hsl(hue, saturation, lightness) {
  const chroma = (saturation / 100) * Math.min(lightness / 100, 1 - lightness / 100);
  const part = (offset) => {
    const k = (offset + hue / 30) % 12;
    const value = lightness / 100 - chroma * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(255 * value).toString(16).padStart(2, "0");
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}

// Black or white, whichever can be read on a color.
function inkOn(fill) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16));
  return 140 < 0.299 * red + 0.587 * green + 0.114 * blue ? "#11161c" : "#f2f4f7";
}

function flamePathText(top) {
  const share = shareText(top.bytes, flame.root.bytes);
  const where = top === flame.root ? "" : ` below ${top.label || top.name}`;
  const found = flame.search ? foundBytes(flame.root, flame.search) : -1;
  const match = found < 0 ? "" : ` · ${bytesText(found)} (${shareText(found, flame.root.bytes)}) match “${flame.search}”`;
  return `${bytesText(top.bytes)} in ${countText(top.count)} blocks${where} (${share} of what is live)${match}`;
}

function foundBytes(root, text) {
  let bytes = 0;
  const open = [root];
  while (0 < open.length) {
    const node = open.pop();
    if (node.name.toLowerCase().includes(text)) bytes += node.bytes;
    else open.push(...node.children.values());
  }
  return bytes;
}

function zoomFlame(node) {
  const path = [];
  for (let at = node; at && at !== flame.root; at = at.parent) path.unshift(at);
  flame.path = path;
  drawLater("flame");
}

function wireFlame() {
  const canvas = byId("flame");
  const hitAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return flame.hits.find((hit) => hit.x <= x && x < hit.x + hit.width
      && hit.y <= y && y < hit.y + FLAME_ROW);
  };
  canvas.addEventListener("pointermove", (event) => {
    const hit = hitAt(event);
    if (!hit) { hideHint(); return; }
    const { node } = hit;
    showHint(`${node.name}\n${bytesText(node.bytes)} in ${countText(node.count)} blocks, `
      + `${shareText(node.bytes, flame.root.bytes)} of what is live`, event);
  });
  canvas.addEventListener("pointerleave", hideHint);
  canvas.addEventListener("click", (event) => {
    const hit = hitAt(event);
    if (hit) zoomFlame(hit.node);
  });
  canvas.addEventListener("keydown", (event) => {
    const node = flame.chosen || flame.path[flame.path.length - 1] || flame.root;
    const siblings = node.parent ? [...node.parent.children.values()].sort((a, b) => b.bytes - a.bytes) : [node];
    const beside = (step) => siblings[siblings.indexOf(node) + step];
    const below = [...node.children.values()].sort((a, b) => b.bytes - a.bytes)[0];
    const to = { ArrowDown: below, ArrowUp: node.parent, ArrowLeft: beside(-1), ArrowRight: beside(1) };
    if (event.key in to) flame.chosen = to[event.key] || node;
    else if (event.key === "Enter") zoomFlame(node);
    else if (event.key === "Escape") { flame.chosen = null; zoomFlame(flame.root); }
    else return;
    event.preventDefault();
    event.stopPropagation();
    canvas.setAttribute("aria-label", `${(flame.chosen || node).name}, ${bytesText((flame.chosen || node).bytes)}`);
    drawLater("flame");
  });
}
