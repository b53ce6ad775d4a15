// Preloaded into kinesis-local (`node --require`), which checks no signature and lets every web page in. It gets a socket file
// in its own folder, and the port that it asked for is ours: what is signed with this embedded AWS's keys is passed on, the
// rest is refused. What it would offer with TLS is nobody's: it has a socket file and no port.
'use strict';

const crypto = require('node:crypto');
const http = require('node:http');
const { Server } = require('node:net');

const { AWS_ACCESS_KEY_ID: KEY, AWS_SECRET_ACCESS_KEY: SECRET, KINESIS_MOCK_PLAIN_PORT: PLAIN } = process.env;
const HOST = '127.0.0.1';
const CLOCK_SKEW = 15 * 60 * 1000;
const listen = Server.prototype.listen;

Server.prototype.listen = function behindTheDoor(port, ...rest) {
  const [upstream, up] = [`kinesis-${port}.sock`, rest.at(-1)];
  this.address = () => ({ address: HOST, family: 'IPv4', port });
  this.prependListener('connection', (socket) => {
    for (const name of ['remoteAddress', 'localAddress']) Object.defineProperty(socket, name, { value: HOST });
    for (const name of ['remotePort', 'localPort']) Object.defineProperty(socket, name, { value: port });
  });
  return listen.call(this, upstream, () => (String(port) === PLAIN ? listen.call(door(upstream), port, HOST, up) : up()));
};

function door(upstream) {
  const server = http.createServer((request, reply) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts);
      const reason = refusal(request, body);
      return reason ? refuse(reply, reason) : pass(upstream, request, body, reply);
    });
  });
  server.keepAliveTimeout = 10 * 60 * 1000; // a client's idle connection must not be closed under its next request
  server.requestTimeout = 0;
  return server;
}

/** Why the request is not for kinesis-local; undefined if it is. */
function refusal(request, body) {
  const { headers, method, url } = request;
  if (headers.origin !== undefined) return ['AccessDeniedException', 'No web page may use this endpoint'];
  if (method === 'GET' && url === '/healthcheck') return undefined;
  const fields = /^AWS4-HMAC-SHA256 Credential=([^,/]+)\/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/;
  const signed = fields.exec(headers.authorization ?? '');
  if (method !== 'POST' || url !== '/' || !signed) return ['MissingAuthenticationTokenException', 'Only signed requests'];
  const [, key, scope, names, signature] = signed;
  if (!isNow(headers['x-amz-date'])) return ['InvalidSignatureException', 'Signed too long ago, or not yet'];
  const wanted = signatureOf(headers, body, scope, names, secretOf(key));
  const isOurs = crypto.timingSafeEqual(Buffer.from(signature), Buffer.from(wanted));
  return isOurs ? undefined : ['InvalidSignatureException', 'Not signed with the keys of this embedded AWS'];
}

/** A function's session has a secret that follows from ours: signed_ministack.py makes it so. */
function secretOf(key) {
  return key === KEY ? SECRET : hmac(SECRET, key).toString('hex');
}

/** SigV4 of a POST to /, which is all that Kinesis' clients send. */
function signatureOf(headers, body, scope, names, secret) {
  const lines = names.split(';').map((name) => `${name}:${(headers[name] ?? '').trim().replace(/ +/g, ' ')}\n`);
  const canonical = ['POST', '/', '', lines.join(''), names, sha256(body)].join('\n');
  const text = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, sha256(canonical)].join('\n');
  return hmac(scope.split('/').reduce(hmac, `AWS4${secret}`), text).toString('hex');
}

function isNow(stamp) {
  const [, date, hours, minutes, seconds] = /^(\d{8})T(\d\d)(\d\d)(\d\d)Z$/.exec(stamp ?? '') ?? [];
  if (!date) return false;
  const day = `${date.slice(0, 4)}-${date.slice(4, 6)}-${date.slice(6)}`;
  return Math.abs(Date.now() - Date.parse(`${day}T${hours}:${minutes}:${seconds}Z`)) < CLOCK_SKEW;
}

function hmac(key, text) {
  return crypto.createHmac('sha256', key).update(text).digest();
}

function sha256(content) {
  return crypto.createHash('sha256').update(content).digest('hex');
}

function refuse(reply, [type, message]) {
  reply.writeHead(403, { 'content-type': 'application/x-amz-json-1.1' });
  reply.end(JSON.stringify({ __type: type, message }));
}

function pass(upstream, request, body, reply) {
  const headers = { ...request.headers, connection: 'close', 'content-length': body.length };
  delete headers['transfer-encoding'];
  const { method, url: path } = request;
  const onward = http.request({ socketPath: upstream, method, path, headers, agent: false }, (answer) => {
    const kept = Object.entries(answer.headers).filter(([name]) => !/^(access-control-.*|connection)$/.test(name));
    reply.writeHead(answer.statusCode, Object.fromEntries(kept));
    answer.pipe(reply);
  });
  onward.on('error', () => reply.destroy());
  reply.on('close', () => onward.destroy());
  onward.end(body);
}
