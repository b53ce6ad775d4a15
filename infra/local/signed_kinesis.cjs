// Preloaded into kinesis-local (`node --require`), which checks no signatures and accepts requests from every web page.
// kinesis-local gets a socket file in its own folder, and this proxy takes its port. The proxy passes on requests that are
// signed with this embedded AWS's keys and allowed by the policies of the signer's role, which ministack evaluates, and
// refuses all others. kinesis-local's TLS server gets a socket file too, but no port.
// The proxy speaks HTTP/1.1 and HTTP/2 (prior knowledge), and answers SubscribeToShard itself: kinesis/fan_out.cjs.
'use strict';

const crypto = require('node:crypto');
const http = require('node:http');
const http2 = require('node:http2');
const { Server, createServer } = require('node:net');

const { decode } = require('./kinesis/cbor.cjs');
const { CONTROL, FanOut } = require('./kinesis/fan_out.cjs');
const { replyTo } = require('./kinesis/reply.cjs');

const { AWS_ACCESS_KEY_ID: KEY, AWS_SECRET_ACCESS_KEY: SECRET, KINESIS_MOCK_PLAIN_PORT: PLAIN } = process.env;
const { AWS_ENDPOINT_URL: MINISTACK, AWS_REGION: REGION, ACCOUNT } = process.env;
const HOST = '127.0.0.1';
const CLOCK_SKEW = 15 * 60 * 1000;
const JUDGED_FOR = 1000; // milliseconds; IAM takes longer to apply a change
const TOKENS_MAX = 10000;
const JSON_TYPE = 'application/x-amz-json-1.1';
const NEWS = /^(PutRecords?|SplitShard|MergeShards|UpdateShardCount|DeregisterStreamConsumer|DeleteStream)$/;
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
  const fanOut = new FanOut(upstream);
  const answer = (request, reply) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => answered(upstream, fanOut, request, Buffer.concat(parts), replyTo(request, reply)));
  };
  const one = http.createServer(answer);
  one.keepAliveTimeout = 10 * 60 * 1000; // do not close a client's idle connection just before its next request
  one.requestTimeout = 0;
  return eitherOf(one, http2.createServer(answer));
}

/** Connections by their first bytes: those of HTTP/2 begin with PRI. */
function eitherOf(one, two) {
  return createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => socket.destroy());
    socket.once('data', (start) => {
      socket.pause();
      socket.unshift(start);
      (start.toString('latin1', 0, 3) === 'PRI' ? two : one).emit('connection', socket);
      process.nextTick(() => socket.resume());
    });
  });
}

async function answered(upstream, fanOut, request, body, reply) {
  if (request.url === CONTROL) return controlled(fanOut, request, body, reply);
  const call = callOf(request, body);
  const reason = await refusal(request, body, call);
  if (reason) return reply.answer(403, JSON_TYPE, reason[0], JSON.stringify({ __type: reason[0], message: reason[1] }));
  if (call.operation === 'SubscribeToShard') return fanOut.subscribe(call.asked, call.isCbor, reply);
  return pass(upstream, fanOut, request, body, reply, call);
}

/** Knobs and faults of subscriptions, for tests that know the secret. */
function controlled(fanOut, { headers }, body, reply) {
  const [given, wanted] = [headers['x-sublet-door'] ?? '', hmac(SECRET, body).toString('hex')];
  const isOurs = given.length === wanted.length && crypto.timingSafeEqual(Buffer.from(given), Buffer.from(wanted));
  if (!isOurs || headers.origin !== undefined) return reply.answer(403, JSON_TYPE, 'AccessDeniedException', '{}');
  return reply.answer(200, JSON_TYPE, undefined, JSON.stringify(fanOut.control(JSON.parse(body))));
}

/** Why the request is refused; undefined if it may pass. */
async function refusal(request, body, call) {
  const { headers, method, url } = request;
  if (headers.origin !== undefined) return ['AccessDeniedException', 'No web page may use this endpoint'];
  if (method === 'GET' && url === '/healthcheck') return undefined;
  const fields = /^AWS4-HMAC-SHA256 Credential=([^,/]+)\/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/;
  const signed = fields.exec(headers.authorization ?? '');
  if (method !== 'POST' || url !== '/' || !signed) return ['MissingAuthenticationTokenException', 'Only signed requests'];
  const [, key, scope, names, signature] = signed;
  if (!isNow(headers['x-amz-date'])) return ['InvalidSignatureException', 'Signed too long ago, or not yet'];
  call.isLimited = key !== KEY;
  const judgement = call.isLimited ? await judged(key, call) : { secret: SECRET };
  const wanted = signatureOf(headers, body, scope, names, judgement.secret ?? '');
  const isOurs = judgement.secret && crypto.timingSafeEqual(Buffer.from(signature), Buffer.from(wanted));
  return isOurs ? judgement.refusal : ['InvalidSignatureException', 'Not signed with the keys of this embedded AWS'];
}

/** The operation and its stream, which is named, or follows from the iterator or token. */
function callOf(request, body) {
  const operation = (request.headers['x-amz-target'] ?? '').split('.').pop();
  const isCbor = /cbor/.test(request.headers['content-type'] ?? '');
  let asked = {};
  try {
    asked = isCbor ? decode(body) : JSON.parse(body);
  } catch {
    // neither JSON nor CBOR: kinesis-local will say so
  }
  const region = /Credential=[^/]+\/\d+\/([^/]+)\//.exec(request.headers.authorization ?? '')?.[1] ?? REGION;
  const named = asked?.StreamName && `arn:aws:kinesis:${region}:${ACCOUNT}:stream/${asked.StreamName}`;
  const given = asked?.ConsumerARN ?? asked?.StreamARN ?? asked?.ResourceARN ?? named;
  const resource = given ?? tokens.get(asked?.ShardIterator ?? asked?.NextToken) ?? '*';
  return { asked, isCbor, operation, resource, isNamed: given !== undefined };
}

/** Iterators and tokens given to callers with limited permissions, with their streams. */
const tokens = new Map();

function remember(text, resource) {
  for (const [, token] of text.matchAll(/"(?:ShardIterator|NextShardIterator|NextToken)":"([^"]+)"/g)) tokens.set(token, resource);
  for (const token of tokens.keys()) {
    if (tokens.size <= TOKENS_MAX) return;
    tokens.delete(token);
  }
}

const judgements = new Map();

/** ministack's answer for a key that is not the root's: its secret, and why its role may not do this. */
function judged(key, { operation, resource }) {
  const asked = JSON.stringify({ key, action: `kinesis:${operation}`, resource });
  const known = judgements.get(asked);
  if (known && Date.now() - known.at < JUDGED_FOR) return known.answer;
  const answer = new Promise((resolve, reject) => {
    const headers = { 'content-length': Buffer.byteLength(asked), 'x-sublet-door': hmac(SECRET, asked).toString('hex') };
    const question = http.request(`${MINISTACK}/_sublet/judge`, { method: 'POST', headers }, async (reply) => {
      let text = '';
      for await (const part of reply) text += part;
      resolve(JSON.parse(text));
    });
    question.on('error', reject);
    question.end(asked);
  }).catch((error) => ({ refusal: ['InternalFailureException', String(error)] }));
  judgements.set(asked, { at: Date.now(), answer });
  return answer;
}

/** SigV4 of a POST to /, the only request that Kinesis' clients send. */
function signatureOf(headers, body, scope, names, secret) {
  const lines = names.split(';').map((name) => `${name}:${(headers[name] ?? (name === 'host' ? headers[':authority'] : '')).trim().replace(/ +/g, ' ')}\n`);
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

/** Remembers a reply's tokens if the next call may contain nothing else, and tells subscriptions what is new. */
function pass(upstream, fanOut, request, body, reply, call) {
  const { operation, resource, isLimited, isNamed } = call;
  const goesOn = isLimited && (operation === 'GetRecords' ? !isNamed : /^(GetShardIterator|ListShards)$/.test(operation));
  const isNews = NEWS.test(operation);
  const sent = fanOut.translated(call) ?? body;
  const plain = Object.entries(request.headers).filter(([name]) => !/^(:.*|transfer-encoding)$/.test(name));
  const headers = { host: HOST, ...Object.fromEntries(plain), connection: 'close', 'content-length': sent.length };
  const { method, url: path } = request;
  const onward = http.request({ socketPath: upstream, method, path, headers, agent: false }, (answer) => {
    const kept = Object.entries(answer.headers).filter(([name]) => !/^(access-control-.*|connection|keep-alive|transfer-encoding)$/.test(name));
    reply.raw.writeHead(answer.statusCode, Object.fromEntries(kept));
    if (!goesOn && !isNews) return answer.pipe(reply.raw);
    const parts = [];
    answer.on('data', (part) => parts.push(part));
    answer.on('end', () => {
      const whole = Buffer.concat(parts);
      if (goesOn) remember(whole.toString(), resource);
      reply.raw.end(whole);
      if (isNews && answer.statusCode === 200) fanOut.answered(operation, streamOf(resource), whole.toString('latin1'));
    });
  });
  onward.on('error', () => reply.cut());
  reply.raw.on('close', () => onward.destroy());
  onward.end(sent);
}

function streamOf(arn) {
  return /:stream\/([^/]+)/.exec(arn)?.[1];
}
