// Node's own http with a keep-alive agent, its fetch, and the npm package undici (pools, pipelining, streams):
//   node test/clients/node_http.mjs BASE CERTIFICATE
// The paths are those of site_backend.py. Ends with 1 at the first surprise.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Readable } from 'node:stream';

const { Agent, Pool, fetch: undiciFetch, request: undiciRequest } = createRequire(join(process.cwd(), 'x.js'))('undici');
const [base, certificate] = process.argv.slice(2);
const ca = readFileSync(certificate);
const web = base.startsWith('https') ? https : http;
const upload = randomBytes(700_000);
const digest = createHash('sha256').update(upload).digest('hex');
const pieces = () => Readable.from([upload.subarray(0, 1), upload.subarray(1, 300_001), upload.subarray(300_001)]);
let count = 0;

const collect = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
};

// --- node:http(s)
const agent = new web.Agent({ keepAlive: true, maxSockets: 8, ca });
const ask = async (method, path, { body, headers = {}, expect = false } = {}) => {
  const request = web.request(base + path, { method, agent, headers });
  const answered = once(request, 'response');
  if (expect) {
    request.flushHeaders();
    await once(request, 'continue');
  }
  if (body instanceof Readable) body.pipe(request);
  else request.end(body);
  const [response] = await answered;
  count++;
  return { status: response.statusCode, body: await collect(response), trailers: response.trailers };
};
const all = (number, one) => Promise.all(Array.from({ length: number }, (_, n) => one(n)));

await all(200, async (n) => {
  const { status, body } = await ask('GET', `/api?${n}`);
  assert.deepEqual([status, JSON.parse(body).query], [200, String(n)]);
});
assert.equal((await ask('HEAD', '/big')).body.length, 0);
const chunked = await ask('GET', '/chunked');
assert.equal(chunked.body.length, 300_000);
assert.ok(chunked.trailers['x-sum']);
assert.equal(String((await ask('POST', '/upload', { body: pieces() })).body), digest);
assert.equal(String((await ask('POST', '/upload', { body: upload, headers: { 'Content-Length': upload.length } })).body), digest);
const expecting = { expect: true, headers: { Expect: '100-continue', 'Content-Length': upload.length } };
assert.equal(String((await ask('POST', '/upload', { ...expecting, body: upload })).body), digest);
assert.equal((await ask('GET', '/nothing')).status, 204);
assert.equal((await ask('GET', '/etag', { headers: { 'If-None-Match': '"v1"' } })).status, 304);
agent.destroy();

// --- undici
const pool = new Pool(base, { connections: 4, pipelining: 10, connect: { ca } });
await all(400, async (n) => {
  const { statusCode, body } = await pool.request({ method: 'GET', path: `/api?${n}` });
  assert.deepEqual([statusCode, (await body.json()).query], [200, String(n)]);
  count++;
});
const dispatcher = new Agent({ connect: { ca } });
const requests = [
  [{ method: 'POST', body: upload }, digest],
  [{ method: 'POST', body: pieces() }, digest],
  [{ method: 'PUT', body: 'x' }, createHash('sha256').update('x').digest('hex')],
];
for (const [options, expected] of requests) {
  const { statusCode, body } = await undiciRequest(`${base}/upload`, { ...options, dispatcher });
  assert.deepEqual([statusCode, await body.text()], [200, expected]);
  count++;
}
const streamed = await undiciFetch(`${base}/chunked`, { dispatcher });
assert.equal((await streamed.arrayBuffer()).byteLength, 300_000);
const moved = await undiciFetch(`${base}/elsewhere`, { dispatcher });
assert.ok(moved.url.endsWith('/text') && (await moved.text()).startsWith('hello'));
const head = await undiciRequest(`${base}/big`, { method: 'HEAD', dispatcher });
assert.equal(head.headers['content-length'], String(4 << 20));
await head.body.dump();
const big = await all(8, async () => (await (await undiciRequest(`${base}/big`, { dispatcher })).body.arrayBuffer()).byteLength);
assert.deepEqual(new Set(big), new Set([4 << 20]));
count += 11;
await pool.close();
await dispatcher.close();
console.log(`${count} requests`);
