// What was recorded, out of the page: base64, zlib, then columns of variable-length integers.

async function inflate(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Seven bits a byte, low ones first. Numbers beyond 2^53 lose their lowest bits.
function integers(bytes, into, isSigned) {
  let at = 0;
  for (let index = 0; index < into.length; index += 1) {
    let byte = bytes[at++];
    let value = byte & 127;
    let scale = 128;
    while (127 < byte) {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    }
    into[index] = !isSigned ? value : value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
  return into;
}

// Each value is told as its difference from the one before.
function summed(values) {
  let sum = 0;
  for (let index = 0; index < values.length; index += 1) {
    sum += values[index];
    values[index] = sum;
  }
  return values;
}

function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const next = () => {
    const length = view.getUint32(at, true);
    const part = bytes.subarray(at + 4, at + 4 + length);
    at += 4 + length;
    return part;
  };
  const told = JSON.parse(new TextDecoder().decode(next()));
  const { events, lives, ranges } = told.counts;
  const column = (Kind, count, isSigned) => integers(next(), new Kind(count), isSigned);
  const kinds = next();
  const times = summed(column(Float64Array, events, true));
  const life = {
    count: lives,
    address: summed(column(Float64Array, lives, true)),
    requested: column(Float64Array, lives, false),
    bytes: column(Float64Array, lives, false),
    stream: column(Uint32Array, lives, false),
    from: summed(column(Uint32Array, lives, false)),
    freed: column(Uint32Array, lives, false),
    completed: column(Uint32Array, lives, false),
    stack: column(Int32Array, lives, false),
    owner: column(Uint32Array, lives, false),
    noted: column(Uint32Array, lives, false),
    // For which streams, by the number of their set; absent where nobody knows.
    awaited: column(Uint32Array, told.awaited ? lives : 0, false),
  };
  for (let index = 0; index < lives; index += 1) {
    life.bytes[index] += 512 * Math.max(1, Math.ceil(life.requested[index] / 512));
    life.freed[index] = later(life.from[index], life.freed[index]);
    life.completed[index] = later(life.freed[index], life.completed[index]);
    life.stack[index] -= 1;
  }
  const range = {
    count: ranges,
    address: summed(column(Float64Array, ranges, true)),
    bytes: column(Float64Array, ranges, false),
    from: summed(column(Uint32Array, ranges, false)),
    to: column(Uint32Array, ranges, false),
    flags: column(Uint32Array, ranges, false),
    stream: column(Uint32Array, ranges, false),
    pool: column(Uint32Array, ranges, false),
  };
  for (let index = 0; index < ranges; index += 1) {
    range.to[index] = later(range.from[index], range.to[index]);
  }
  return { told, kinds, times, life, range };
}

const NEVER = 0xffffffff;

// A later moment is told as its distance plus one, and 0 if it never comes.
function later(from, distance) {
  return distance === 0 || from === NEVER ? NEVER : from + distance - 1;
}
