// Levels over time, divided by state, stream or owner, fast to ask at any zoom.
//
// The levels are kept at the start of each chunk of moments, with the moment of the highest total
// in it; what lies between is walked again.

const CHUNK = 64;
const CATEGORIES_MAX = 10;
const SAMPLES = 32;

// Told apart with any kind of color vision, on white and on black; the last is for all others.
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8172b3",
  "#b8a300", "#7f3c8d", "#3f7d20"];

const MODES = {
  state: { label: "State", told: "what is allocated, waits to be free, is cached" },
  stream: { label: "Stream", told: "which stream allocated it" },
  owner: { label: "Owner", told: "which line of the program, annotation or size holds it" },
  pending: { label: "Pending", told: "freed, but waiting for other streams, by home stream" },
};

const allSeries = {};

function seriesOf(mode) {
  if (!allSeries[mode]) allSeries[mode] = buildSeries(mode);
  return allSeries[mode];
}

function buildSeries(mode) {
  const { life } = model;
  const series = { mode, categoryOf: null, categories: [] };
  if (mode === "state") {
    series.categories = [{ name: "allocated", css: "--allocated" },
      { name: "pending free", css: "--pending" }];
  } else {
    const column = mode === "owner" ? life.owner : life.stream;
    const names = mode === "owner" ? model.owners.map(shortName)
      : model.streams.map((_, stream) => streamName(stream));
    divide(series, column, names, mode === "pending");
  }
  return fillChunks(series);
}

// The largest become categories of their own, the rest is "other".
function divide(series, column, names, onlyPending) {
  const peaks = new Float64Array(names.length);
  const moments = sampledMoments();
  for (const moment of moments) {
    const levels = new Float64Array(names.length);
    for (const index of liveAt(moment)) {
      if (!onlyPending || isPending(index, moment)) levels[column[index]] += model.life.bytes[index];
    }
    levels.forEach((level, name) => { peaks[name] = Math.max(peaks[name], level); });
  }
  const ranked = [...peaks.keys()].sort((a, b) => peaks[b] - peaks[a] || a - b);
  const kept = ranked.slice(0, CATEGORIES_MAX).filter((name) => 0 < peaks[name]);
  const place = new Uint16Array(names.length).fill(kept.length);
  kept.forEach((name, index) => { place[name] = index; });
  series.categories = kept.map((name, index) => ({ name: names[name], hex: PALETTE[index] }));
  const rest = ranked.slice(kept.length).filter((name) => 0 < peaks[name]).length;
  if (kept.length < names.length) {
    // What no sample has seen may still be there in between.
    const name = rest === 1 ? "1 other" : `${countText(rest)} others`;
    series.categories.push({ name: rest === 0 ? "others" : name, css: "--other", isRest: true });
  }
  series.categoryOf = new Uint16Array(model.life.count);
  for (let index = 0; index < model.life.count; index += 1) {
    series.categoryOf[index] = place[column[index]];
  }
}

function sampledMoments() {
  const moments = new Set([model.end, stateSeries().peakMoment]);
  for (let step = 0; step < SAMPLES; step += 1) {
    moments.add(Math.floor((model.end * step) / SAMPLES));
  }
  return [...moments];
}

function stateSeries() {
  return seriesOf("state");
}

function fillChunks(series) {
  const width = Math.max(1, series.categories.length);
  const chunkCount = Math.floor(model.end / CHUNK) + 1;
  series.width = width;
  series.starts = new Float64Array(chunkCount * width);
  series.peaks = new Float64Array(chunkCount);
  series.peakMoments = new Uint32Array(chunkCount);
  series.peakTotal = -1;
  const levels = new Float64Array(width);
  let total = 0;
  for (let chunk = 0; chunk < chunkCount; chunk += 1) {
    series.starts.set(levels, chunk * width);
    let best = -1;
    const last = Math.min(model.end, chunk * CHUNK + CHUNK - 1);
    for (let moment = chunk * CHUNK; moment <= last; moment += 1) {
      total += applyMoment(series, levels, moment);
      if (best < total) {
        best = total;
        series.peakMoments[chunk] = moment;
      }
    }
    series.peaks[chunk] = best;
    if (series.peakTotal < best) {
      series.peakTotal = best;
      series.peakMoment = series.peakMoments[chunk];
    }
  }
  return series;
}

// Changes the levels by what happens at a moment, and says by how much their sum changes.
function applyMoment(series, levels, moment) {
  const { starts, list } = model.changes;
  const { life } = model;
  const { categoryOf, mode } = series;
  let total = 0;
  for (let place = starts[moment]; place < starts[moment + 1]; place += 1) {
    const what = list[place] % 3;
    const index = (list[place] - what) / 3;
    const bytes = life.bytes[index];
    const wasPending = what === ENDED && life.freed[index] < life.completed[index];
    if (mode === "state") {
      if (what === GAINED) { levels[0] += bytes; total += bytes; }
      else if (what === FREED) { levels[0] -= bytes; levels[1] += bytes; }
      else { levels[wasPending ? 1 : 0] -= bytes; total -= bytes; }
    } else {
      const gains = mode === "pending" ? what === FREED : what === GAINED;
      const loses = mode === "pending" ? wasPending : what === ENDED;
      const step = gains ? bytes : loses ? -bytes : 0;
      levels[categoryOf[index]] += step;
      total += step;
    }
  }
  return total;
}

function levelsAt(series, moment) {
  const chunk = Math.floor(moment / CHUNK);
  const levels = series.starts.slice(chunk * series.width, (chunk + 1) * series.width);
  for (let at = chunk * CHUNK; at <= moment; at += 1) applyMoment(series, levels, at);
  return levels;
}

// The moment of the highest total from one moment to another. Over many chunks it is that of whole
// chunks, so that no peak is ever lost.
function peakBetween(series, from, to) {
  const first = Math.floor(from / CHUNK);
  const last = Math.floor(to / CHUNK);
  if (to - from < 4 * CHUNK) return peakByWalking(series, from, to);
  let best = first;
  for (let chunk = first + 1; chunk <= last; chunk += 1) {
    if (series.peaks[best] < series.peaks[chunk]) best = chunk;
  }
  return series.peakMoments[best];
}

function peakByWalking(series, from, to) {
  const levels = levelsAt(series, from);
  let total = levels.reduce((sum, level) => sum + level, 0);
  let best = total;
  let bestMoment = from;
  for (let moment = from + 1; moment <= to; moment += 1) {
    total += applyMoment(series, levels, moment);
    if (best < total) {
      best = total;
      bestMoment = moment;
    }
  }
  return bestMoment;
}

function categoryColor(category) {
  return category.hex || color(category.css);
}
