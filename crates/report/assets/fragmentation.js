// How broken up the free memory is over time: what is held and free, and its largest hole.
//
// Samples over the whole time come with the page; for a part of it finer ones are taken here, a
// few in each frame, once the view has come to rest.

const FINE_COUNT = 160;
const FINE_PER_FRAME = 8;
const FINE_DELAY_MS = 120;
const fine = { from: 0, to: 0, samples: [], timer: 0, run: 0 };

function refineHoles() {
  clearTimeout(fine.timer);
  fine.run += 1;
  const isWhole = axisEnd() * 0.6 < timeline.to - timeline.from;
  if (isWhole || (fine.from === timeline.from && fine.to === timeline.to)) return;
  fine.timer = setTimeout(() => takeSamples(fine.run, timeline.from, timeline.to, []), FINE_DELAY_MS);
}

// Takes some of the samples of a view, and the rest later, unless the view has moved on.
function takeSamples(run, from, to, samples) {
  if (run !== fine.run) return;
  for (let count = 0; count < FINE_PER_FRAME && samples.length <= FINE_COUNT; count += 1) {
    const moment = momentOf(from + ((to - from) * samples.length) / FINE_COUNT);
    const { free, largest, count: holes } = holesAt(moment);
    samples.push([moment, free, largest, holes]);
  }
  if (samples.length <= FINE_COUNT) {
    requestAnimationFrame(() => takeSamples(run, from, to, samples));
    return;
  }
  Object.assign(fine, { from, to, samples });
  drawFragmentation();
}

// Their view was told in units of another axis.
function forgetFineHoles() {
  Object.assign(fine, { from: 0, to: 0, samples: [], run: fine.run + 1 });
}

function holeSamples() {
  const isFine = fine.from <= timeline.from && timeline.to <= fine.to && 0 < fine.samples.length;
  return isFine ? fine.samples : model.holes;
}

function drawFragmentation() {
  const { context, width, height } = prepareCanvas(byId("fragmentation"));
  const frame = { left: MARGIN.left, top: 6, width: width - MARGIN.left - MARGIN.right, height: height - 12 };
  const samples = holeSamples();
  const inView = samples.filter((it) => timeline.from <= unitOf(it[0]) && unitOf(it[0]) <= timeline.to);
  const most = Math.max(1, ...(inView.length ? inView : samples).map((it) => it[1])) * 1.08;
  context.fillStyle = color("--panel");
  context.fillRect(frame.left, frame.top, frame.width, frame.height);
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top, frame.width, frame.height);
  context.clip();
  const trace = (value, isArea, fill) => {
    context.beginPath();
    const y = (bytes) => frame.top + frame.height * (1 - bytes / most);
    samples.forEach((sample, index) => {
      const x = xOf(unitOf(sample[0]), frame);
      if (index === 0) context.moveTo(x, isArea ? y(0) : y(value(sample)));
      context.lineTo(x, y(value(sample)));
      if (index + 1 === samples.length) {
        const end = Math.max(x, frame.left + frame.width);
        context.lineTo(end, y(value(sample)));
        if (isArea) context.lineTo(end, y(0));
      }
    });
    context[isArea ? "fillStyle" : "strokeStyle"] = fill;
    if (isArea) context.fill();
    else context.stroke();
  };
  context.lineWidth = 1.5;
  trace((sample) => sample[1], true, color("--cached"));
  trace((sample) => sample[2], false, color("--hole"));
  context.fillStyle = color("--cursor");
  context.fillRect(cursorX(frame) - 1, frame.top, 2, frame.height);
  context.restore();
  context.fillStyle = color("--quiet");
  context.textAlign = "right";
  for (const level of ticks(0, most, frame.height, 30, true).slice(0, 3)) {
    const y = frame.top + frame.height * (1 - level / most);
    context.fillText(level === 0 ? "0" : bytesText(level), frame.left - 7, Math.min(y, height - 8));
  }
}

function holesAt(moment) {
  let free = 0;
  let largest = 0;
  let count = 0;
  for (const segment of segmentsAt(moment)) {
    let at = segment.address;
    const hole = (bytes) => {
      if (bytes <= 0) return;
      free += bytes;
      count += 1;
      largest = Math.max(largest, bytes);
    };
    for (const index of segment.blocks) {
      hole(model.life.address[index] - at);
      at = Math.max(at, model.life.address[index] + model.life.bytes[index]);
    }
    hole(segment.address + segment.bytes - at);
  }
  return { free, largest, count };
}
