// A reply over HTTP/1.1 or HTTP/2, as the embedded Kinesis gives it.
'use strict';

const crypto = require('node:crypto');

class Reply {
  constructor(request, raw) {
    [this.request, this.raw] = [request, raw];
  }

  get isOverHttp2() {
    return this.request.httpVersionMajor === 2;
  }

  /** The client has left. */
  get isGone() {
    return (this.isOverHttp2 ? this.raw.stream : this.raw).destroyed;
  }

  get writableNeedDrain() {
    return (this.isOverHttp2 ? this.raw.stream : this.raw).writableNeedDrain;
  }

  on(name, listener) {
    (this.isOverHttp2 ? this.raw.stream : this.raw).on(name, listener);
  }

  off(name, listener) {
    (this.isOverHttp2 ? this.raw.stream : this.raw).off(name, listener);
  }

  /** The whole answer; `type` is an error's. */
  answer(status, contentType, type, body) {
    const named = type ? { 'x-amzn-errortype': type } : {};
    this.raw.writeHead(status, { 'content-type': contentType, 'x-amzn-requestid': crypto.randomUUID(), ...named });
    this.raw.end(body);
  }

  /** The start of an answer whose parts follow as they come. */
  begin(contentType, isUnchunked) {
    if (isUnchunked && !this.isOverHttp2) {
      this.raw.shouldKeepAlive = false;
      this.raw.useChunkedEncodingByDefault = false;
    }
    this.raw.writeHead(200, { 'content-type': contentType, 'x-amzn-requestid': crypto.randomUUID() });
    this.raw.flushHeaders();
  }

  write(part) {
    if (!this.raw.destroyed && !this.raw.writableEnded) this.raw.write(part);
  }

  end() {
    if (!this.raw.destroyed) this.raw.end();
  }

  /** Ends the connection, or over HTTP/2 the stream, without an end. */
  cut() {
    if (this.isOverHttp2) this.raw.stream.close(2);
    else this.raw.socket?.destroy();
  }
}

function replyTo(request, raw) {
  return new Reply(request, raw);
}

module.exports = { replyTo };
