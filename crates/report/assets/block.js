// The life of one block: when it came, who asked for it, when it was freed and when it was over.

let chosenBlock = -1;

function chooseBlock(index, showsIt) {
  chosenBlock = index;
  if (showsIt) showView("block");
  drawLater("block");
}

function momentLink(moment, text) {
  return make("button", { type: "button", class: "link", onclick: () => setMoment(moment) }, text);
}

function eventText(moment) {
  const time = model.hasTime ? `, ${timeText(model.times[moment] - model.times[0])}` : "";
  return `event ${countText(moment)}${time}`;
}

function drawBlock() {
  const panel = byId("view-block");
  if (panel.hidden) return;
  if (chosenBlock < 0) {
    panel.replaceChildren(make("p", { class: "quiet" },
      "Click a block in the segment map, or search for an address such as 0x7f1200000000, to see its life."));
    return;
  }
  const { life } = model;
  const index = chosenBlock;
  const list = make("dl", { class: "life" });
  const say = (name, ...told) => list.append(make("dt", {}, name), make("dd", {}, ...told));
  say("address", make("code", {}, addressText(life.address[index])));
  say("size", `${bytesText(life.requested[index])} asked for (${countText(life.requested[index])} B), ${bytesText(life.bytes[index])} taken`);
  say("stream", streamName(life.stream[index]));
  say("owner", ownerName(life.owner[index]));
  if (0 < life.noted[index]) say("noted by the program", model.texts[life.noted[index] - 1]);
  sayMoments(say, index);
  sayNeighbors(say, index);
  panel.replaceChildren(list, make("h3", {}, "Stack of the allocation"), stackList(life.stack[index]));
}

function sayMoments(say, index) {
  const { life } = model;
  const [from, freed, completed] = [life.from[index], life.freed[index], life.completed[index]];
  say("allocated", from === 0 ? "before the trace began" : momentLink(from, eventText(from)));
  if (freed === NEVER) {
    say("freed", "not within the trace: alive at its end");
    return;
  }
  const lived = model.hasTime && 0 < from ? ` after ${timeText(model.times[freed] - model.times[from])}` : "";
  say(freed === completed ? "freed" : "free requested", freed === 0 ? "before the trace began" : momentLink(freed, eventText(freed)), lived);
  if (freed === completed) {
    say("available", "at once: no other stream used it");
    return;
  }
  const end = completed === NEVER ? "not within the trace" : momentLink(completed, eventText(completed));
  say("free completed", end);
  say("kept for other streams", waitText(index),
    model.awaited ? `, for ${awaitedText(index)}` : "; which ones, a PyTorch snapshot does not say");
}

// Earlier and later blocks at the same address.
function sayNeighbors(say, index) {
  const { life } = model;
  let [before, after] = [-1, -1];
  for (let other = 0; other < life.count; other += 1) {
    if (life.address[other] !== life.address[index] || other === index) continue;
    if (other < index) before = other;
    else if (after < 0) after = other;
  }
  if (0 <= before) say("before it, here", blockLink(before, `${bytesText(life.bytes[before])}, ${ownerName(life.owner[before])}`));
  if (0 <= after) say("after it, here", blockLink(after, `${bytesText(life.bytes[after])}, ${ownerName(life.owner[after])}`));
}
