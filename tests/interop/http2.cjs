// HTTP/2 in front of the embedded Kinesis, for the MultiLangDaemon, which speaks only that and has no setting for it:
// `node http2.cjs PORT` prints its own port, on loopback. Each request is passed on with the host that its client signed,
// so that signatures stay valid and the proxy behind (infra/local/signed_kinesis.cjs) checks each request.
'use strict';

const http = require('node:http');
const http2 = require('node:http2');

const HOST = '127.0.0.1';
const UPSTREAM = Number(process.argv[2]);
const OF_ONE_CONNECTION = ['connection', 'keep-alive', 'transfer-encoding'];

const server = http2.createServer((request, reply) => {
  const { method, url: path, authority } = request;
  const sent = Object.entries(request.headers).filter(([name]) => !name.startsWith(':'));
  const headers = { ...Object.fromEntries(sent), host: authority };
  const onward = http.request({ host: HOST, port: UPSTREAM, method, path, headers }, (answer) => {
    const kept = Object.entries(answer.headers).filter(([name]) => !OF_ONE_CONNECTION.includes(name));
    reply.writeHead(answer.statusCode, Object.fromEntries(kept));
    answer.pipe(reply);
  });
  onward.on('error', () => reply.stream.close());
  request.pipe(onward);
});

server.listen(0, HOST, () => console.log(server.address().port));
