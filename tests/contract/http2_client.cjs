// `node http2_client.cjs URL HEADERS BODY`: one POST over HTTP/2 without TLS; prints the status, then each piece of the answer in hex.
'use strict';

const http2 = require('node:http2');

const [url, headers, body] = process.argv.slice(2);
const session = http2.connect(url);
const request = session.request({ ':method': 'POST', ':path': '/', ...JSON.parse(headers) });
request.on('response', (told) => console.log(told[':status']));
request.on('data', (piece) => console.log(piece.toString('hex')));
request.on('end', () => session.close());
request.end(body);
