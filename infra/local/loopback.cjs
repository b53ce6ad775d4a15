// Preloaded into kinesis-local (`node --require`), which has no option for its host and would listen on every interface.
// Every server listens on 127.0.0.1 instead. Node's forms: listen(port[, host][, backlog][, callback]), listen(options).
'use strict';

const { Server } = require('node:net');

const HOST = '127.0.0.1';
const listen = Server.prototype.listen;

Server.prototype.listen = function onLoopback(first, ...rest) {
  if (first !== null && typeof first === 'object' && 'port' in first) {
    return listen.call(this, { ...first, host: HOST }, ...rest);
  }
  const port = Number(first);
  if (first !== null && first !== undefined && Number.isInteger(port)) {
    const [host, ...others] = rest;
    return typeof host === 'string'
      ? listen.call(this, port, HOST, ...others)
      : listen.call(this, port, HOST, ...rest);
  }
  // A pipe, a handle, or nothing: `listen()` without arguments would take a random port on every interface.
  return first === undefined || typeof first === 'function'
    ? listen.call(this, { port: 0, host: HOST }, ...(first ? [first] : []), ...rest)
    : listen.call(this, first, ...rest);
};
