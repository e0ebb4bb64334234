// What was true at any moment: live blocks, held ranges, the order of changes.

let model = null;

// The kinds of events by their number; each takes this many entries of the trace.
const KINDS = ["alloc", "free", "free", "free_requested", "free_completed", "segment_alloc",
  "segment_free", "out of memory", "note"];
const FREE_PAIR = 2;

const GAINED = 0;
const FREED = 1;
const ENDED = 2;

function buildModel(recorded) {
  const { told, kinds, times, life, range } = recorded;
  const end = kinds.length;
  model = { ...told, kinds, life, range, end, addressBase: BigInt(told.address_base) };
  model.times = steadyTimes(times);
  model.hasTime = 0 < end && model.times[0] < model.times[end];
  model.changes = changesByMoment(life, end);
  model.reserved = reservedSteps(range);
  // A log says what was handed out, and nothing of what the driver had given for it.
  model.hasReserved = 0 < range.count || life.count === 0;
  model.entries = entriesBefore(kinds);
  model.unmapped = stepsOf(told.unmapped);
  return model;
}

// The time of each moment, which is that of its last event; a clock that goes back stands still.
function steadyTimes(times) {
  const steady = new Float64Array(times.length + 1);
  let latest = times.length === 0 ? 0 : times[0];
  steady[0] = latest;
  for (let index = 0; index < times.length; index += 1) {
    latest = Math.max(latest, times[index]);
    steady[index + 1] = latest;
  }
  return steady;
}

// How many entries of the trace come before each event.
function entriesBefore(kinds) {
  const before = new Uint32Array(kinds.length + 1);
  for (let index = 0; index < kinds.length; index += 1) {
    before[index + 1] = before[index] + (kinds[index] === FREE_PAIR ? 2 : 1);
  }
  return before;
}

// Changes sorted by moment: those of moment m are `list[starts[m]..starts[m + 1]]`, each a life
// times three plus what happened to it.
function changesByMoment(life, end) {
  const starts = new Uint32Array(end + 2);
  const each = (visit) => {
    for (let index = 0; index < life.count; index += 1) {
      visit(life.from[index], index * 3 + GAINED);
      const { freed, completed } = { freed: life.freed[index], completed: life.completed[index] };
      if (freed <= end && freed < completed) visit(freed, index * 3 + FREED);
      if (completed <= end) visit(completed, index * 3 + ENDED);
    }
  };
  each((moment) => { starts[moment + 1] += 1; });
  for (let moment = 0; moment <= end; moment += 1) starts[moment + 1] += starts[moment];
  const list = new Float64Array(starts[end + 1]);
  const places = starts.slice();
  each((moment, change) => { list[places[moment]++] = change; });
  return { starts, list };
}

function stepsOf(pairs) {
  const moments = [];
  const levels = [];
  let level = 0;
  for (const [moment, step] of pairs) {
    level += step;
    if (moments[moments.length - 1] === moment) levels[levels.length - 1] = level;
    else { moments.push(moment); levels.push(level); }
  }
  return { moments, levels };
}

function reservedSteps(range) {
  const pairs = [];
  for (let index = 0; index < range.count; index += 1) {
    pairs.push([range.from[index], range.bytes[index]]);
    if (range.to[index] !== NEVER) pairs.push([range.to[index], -range.bytes[index]]);
  }
  pairs.sort((a, b) => a[0] - b[0]);
  return stepsOf(pairs);
}

// The first place whose value is above `value`, in ascending values.
function above(values, value, count) {
  let low = 0;
  let high = count === undefined ? values.length : count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function stepLevel(steps, moment) {
  const place = above(steps.moments, moment);
  return place === 0 ? 0 : steps.levels[place - 1];
}

// The highest level from one moment to another, both included.
function stepPeak(steps, from, to) {
  let place = above(steps.moments, from);
  let peak = place === 0 ? 0 : steps.levels[place - 1];
  for (; place < steps.moments.length && steps.moments[place] <= to; place += 1) {
    peak = Math.max(peak, steps.levels[place]);
  }
  return peak;
}

let liveCache = { moment: -1, list: [] };

// The lives that take memory at a moment, pending ones included. One look at every life that has
// begun: a few milliseconds for millions.
function liveAt(moment) {
  if (liveCache.moment === moment) return liveCache.list;
  const { life } = model;
  const begun = above(life.from, moment);
  const list = [];
  for (let index = 0; index < begun; index += 1) {
    if (moment < life.completed[index]) list.push(index);
  }
  liveCache = { moment, list };
  return list;
}

// Whether anything ever waits for another stream.
function hasPending() {
  const { freed, completed } = model.life;
  if (model.hasPending === undefined) {
    model.hasPending = freed.some((moment, index) => moment < completed[index]);
  }
  return model.hasPending;
}

function isPending(index, moment) {
  return model.life.freed[index] <= moment && moment < model.life.completed[index];
}

// The segments at a moment by address; touching ranges of one expandable segment are one.
function segmentsAt(moment) {
  const { range } = model;
  const held = [];
  for (let index = 0; index < range.count && range.from[index] <= moment; index += 1) {
    if (moment < range.to[index]) held.push(index);
  }
  held.sort((a, b) => range.address[a] - range.address[b]);
  const segments = [];
  for (const index of held) {
    const last = segments[segments.length - 1];
    const isExpandable = (range.flags[index] & 1) === 1;
    const address = range.address[index];
    if (last && isExpandable && last.isExpandable && last.stream === range.stream[index]
        && last.address + last.bytes === address) {
      last.bytes += range.bytes[index];
    } else {
      segments.push({ address, bytes: range.bytes[index], stream: range.stream[index],
        isExpandable, isSmall: (range.flags[index] & 2) === 2, pool: range.pool[index],
        blocks: [], used: 0 });
    }
  }
  return placeBlocks(segments, moment);
}

function placeBlocks(segments, moment) {
  const { life } = model;
  const starts = segments.map((segment) => segment.address);
  for (const index of liveAt(moment)) {
    const segment = segments[above(starts, life.address[index]) - 1];
    if (segment && life.address[index] < segment.address + segment.bytes) {
      segment.blocks.push(index);
      segment.used += life.bytes[index];
    }
  }
  for (const segment of segments) {
    segment.blocks.sort((a, b) => life.address[a] - life.address[b]);
  }
  return segments;
}

// The life at an address, nearest to a moment; an address inside a block names the block.
function lifeAtAddress(address, moment) {
  const { life } = model;
  let best = -1;
  let bestDistance = Infinity;
  for (let index = 0; index < life.count; index += 1) {
    if (address < life.address[index] || life.address[index] + life.bytes[index] <= address) continue;
    const distance = moment < life.from[index] ? life.from[index] - moment
      : life.completed[index] <= moment ? moment - life.completed[index] + 1 : 0;
    if (distance < bestDistance) {
      best = index;
      bestDistance = distance;
    }
  }
  return best;
}

// The frames of a stack, innermost first.
function framesOf(stack) {
  if (stack < 0 || !model.stacks[stack]) return [];
  return model.stacks[stack].map((frame) => {
    const [file, line, name] = model.frames[frame];
    return { file: model.texts[file], line, name: model.texts[name] };
  });
}

// The streams that a freed block waits for, as text; null where the trace does not say.
function awaitedText(index) {
  if (!model.awaited) return null;
  const streams = model.awaited[model.life.awaited[index]];
  return streams.length === 0 ? "an end of a hold" : streams.map(streamName).join(", ");
}

function ownerName(owner) {
  return shortName(model.owners[owner]);
}

function streamName(stream) {
  const handle = model.streams[stream];
  return handle === "0x0" ? "stream 0 (default)" : `stream ${handle}`;
}
