// Messages of application/vnd.amazon.eventstream: a prelude with both lengths and its CRC, headers, a payload, and a CRC of it all.
'use strict';

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
  return rest;
});
const STRING = 7;
const AROUND = 16; // bytes of a message beside its headers and its payload

function crc32(bytes) {
  let rest = 0xffffffff;
  for (let at = 0; at < bytes.length; at++) rest = TABLE[(rest ^ bytes[at]) & 255] ^ (rest >>> 8);
  return (rest ^ 0xffffffff) >>> 0;
}

function header([name, value]) {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(Buffer.byteLength(value));
  return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), Buffer.from([STRING]), length, Buffer.from(value)]);
}

/** One message; `headers` is an object of strings. */
function message(headers, payload) {
  const named = Buffer.concat(Object.entries(headers).map(header));
  const whole = Buffer.alloc(AROUND + named.length + payload.length);
  whole.writeUInt32BE(whole.length, 0);
  whole.writeUInt32BE(named.length, 4);
  whole.writeUInt32BE(crc32(whole.subarray(0, 8)), 8);
  named.copy(whole, 12);
  payload.copy(whole, 12 + named.length);
  whole.writeUInt32BE(crc32(whole.subarray(0, whole.length - 4)), whole.length - 4);
  return whole;
}

/** An event by its type, such as `initial-response`. */
function event(type, contentType, payload) {
  return message({ ':event-type': type, ':content-type': contentType, ':message-type': 'event' }, payload);
}

/** An exception of the service's model, after which nothing comes. */
function exception(type, contentType, payload) {
  return message({ ':exception-type': type, ':content-type': contentType, ':message-type': 'exception' }, payload);
}

/** An error that the model does not name. */
function error(code, text) {
  return message({ ':error-code': code, ':error-message': text, ':message-type': 'error' }, Buffer.alloc(0));
}

module.exports = { event, exception, error };
