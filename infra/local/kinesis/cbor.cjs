// CBOR as AWS' clients for Java use it with Kinesis: definite and indefinite lengths, and moments as tag 1 with milliseconds.
'use strict';

const BREAK = Symbol('break');
const MOMENT = 1;

/** The value of these bytes: maps are objects, byte strings Buffers, moments seconds. Raises RangeError if they are cut short. */
function decode(bytes) {
  let at = 0;

  function count(short) {
    if (short < 24) return short;
    const width = { 24: 1, 25: 2, 26: 4, 27: 8 }[short];
    if (width === undefined) throw new RangeError('not CBOR');
    at += width;
    return width === 8 ? Number(bytes.readBigUInt64BE(at - 8)) : bytes.readUIntBE(at - width, width);
  }

  function text(short) {
    if (short === 31) return Buffer.concat([...untilBreak()].map((part) => Buffer.from(part)));
    const length = count(short);
    if (at + length > bytes.length) throw new RangeError('cut short');
    at += length;
    return bytes.subarray(at - length, at);
  }

  function* untilBreak() {
    for (let each = item(); each !== BREAK; each = item()) yield each;
  }

  function list(short, each = item) {
    return short === 31 ? [...untilBreak()] : Array.from({ length: count(short) }, each);
  }

  function pairs(short) {
    const flat = short === 31 ? [...untilBreak()] : Array.from({ length: count(short) * 2 }, item);
    return Object.fromEntries(flat.flatMap((key, index) => (index % 2 ? [] : [[key, flat[index + 1]]])));
  }

  function simple(short) {
    if (short === 31) return BREAK;
    if (short === 26) return bytes.readFloatBE((at += 4) - 4);
    if (short === 27) return bytes.readDoubleBE((at += 8) - 8);
    return { 20: false, 21: true, 22: null }[short];
  }

  function tagged(short) {
    const [tag, value] = [count(short), item()];
    return tag === MOMENT ? value / 1000 : value;
  }

  function item() {
    const first = bytes.readUInt8(at++);
    const short = first & 31;
    switch (first >> 5) {
      case 0:
        return count(short);
      case 1:
        return -1 - count(short);
      case 2:
        return text(short);
      case 3:
        return text(short).toString();
      case 4:
        return list(short);
      case 5:
        return pairs(short);
      case 6:
        return tagged(short);
      default:
        return simple(short);
    }
  }

  return item();
}

function head(kind, count) {
  if (count < 24) return Buffer.from([(kind << 5) | count]);
  const [width, short] = count < 2 ** 8 ? [1, 24] : count < 2 ** 16 ? [2, 25] : count < 2 ** 32 ? [4, 26] : [8, 27];
  const bytes = Buffer.alloc(1 + width);
  bytes[0] = (kind << 5) | short;
  if (width === 8) bytes.writeBigUInt64BE(BigInt(count), 1);
  else bytes.writeUIntBE(count, 1, width);
  return bytes;
}

/** Objects, lists, strings, Buffers, whole numbers, booleans, null, and Dates as moments. */
function encode(value) {
  if (value === null) return Buffer.from([0xf6]);
  if (typeof value === 'boolean') return Buffer.from([value ? 0xf5 : 0xf4]);
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  if (value instanceof Date) return Buffer.concat([head(6, MOMENT), head(0, value.getTime())]);
  if (Array.isArray(value)) return Buffer.concat([head(4, value.length), ...value.map(encode)]);
  const given = Object.entries(value).filter(([, each]) => each !== undefined);
  return Buffer.concat([head(5, given.length), ...given.flatMap((pair) => pair.map(encode))]);
}

module.exports = { decode, encode };
