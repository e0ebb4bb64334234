// At many moments: levels, live blocks and segments tell the same bytes, no two blocks overlap, and
// the holes are those that were counted when the report was drawn. Gives what is wrong.
(() => {
  const { life, end, holes } = wellspring.model();
  const wrong = [];
  const sum = (values) => values.reduce((all, value) => all + value, 0);
  for (let step = 0; step <= 20; step += 1) {
    const moment = Math.floor((end * step) / 20);
    const live = sum(wellspring.liveAt(moment).map((it) => life.bytes[it]));
    for (const mode of ["state", "stream", "owner"]) {
      const levels = sum(wellspring.levelsAt(wellspring.seriesOf(mode), moment));
      if (levels !== live) wrong.push([moment, mode, levels, live]);
    }
    const segments = wellspring.segmentsAt(moment);
    const placed = sum(segments.map((it) => it.used));
    if (placed !== live) wrong.push([moment, "placed", placed, live]);
    for (const { blocks } of segments) {
      blocks.forEach((block, place) => {
        const next = blocks[place + 1];
        if (life.address[next] < life.address[block] + life.bytes[block]) {
          wrong.push([moment, "overlap", block, next]);
        }
      });
    }
  }
  for (const [moment, free, largest, count] of holes.filter((_, place) => place % 20 === 0)) {
    const found = wellspring.holesAt(moment);
    if (found.free !== free || found.largest !== largest || found.count !== count) {
      wrong.push([moment, "holes", found, free, largest, count]);
    }
  }
  return wrong;
})();
