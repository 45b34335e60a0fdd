// Real WebSocket peers through the balancer, by the npm package `ws` (part of `make clients`): echo of text and of
// large binary messages, many at once, pings, and a clean close with its code, first by HTTP Upgrade, then by TLS
// that wss-listen passes through end to end.
//
//   npm install ws && node test/clients/websocket.mjs LB_PROGRAM        (NODE_PATH or a node_modules above)
import { spawn, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttp } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { createRequire } from 'node:module';
import { createServer as createTcp } from 'node:net';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import assert from 'node:assert/strict';

const { WebSocket, WebSocketServer } = createRequire(join(process.cwd(), 'x.js'))('ws');
const lb = process.argv[2] ?? 'lb/lb';
const folder = mkdtempSync(join(tmpdir(), 'dlb-ws-'));

const listen = async (server) => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server.address().port;
};
const freePort = async () => {
  const server = createTcp();
  const port = await listen(server);
  server.close();
  await once(server, 'close');
  return port;
};

execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost',
  '-addext', 'subjectAltName=DNS:localhost', '-keyout', join(folder, 'key'), '-out', join(folder, 'cert')],
  { stdio: 'ignore' });
const tls = { key: readFileSync(join(folder, 'key')), cert: readFileSync(join(folder, 'cert')) };

// A backend: plain HTTP with upgrades, and the same over TLS.
const serve = (request, response) => response.end('{"status":"ok"}');
const plain = createHttp(serve);
const secure = createHttps(tls, serve);
for (const server of [plain, secure]) {
  new WebSocketServer({ server, maxPayload: 64 << 20 }).on('connection', (socket) => {
    socket.on('message', (data, binary) => socket.send(data, { binary }));
  });
}
const [plainPort, securePort] = [await listen(plain), await listen(secure)];
const [httpPort, wssPort] = [await freePort(), await freePort()];
writeFileSync(join(folder, 'lb.toml'), `listen = "127.0.0.1:${httpPort}"
wss-listen = "127.0.0.1:${wssPort}"
stats-path = ""
[[backend]]
url = "http://127.0.0.1:${plainPort}"
wss = "127.0.0.1:${securePort}"
`);
const balancer = spawn(lb, ['-c', join(folder, 'lb.toml')], { stdio: ['ignore', 'inherit', 'inherit'] });

const figures = async () => (await fetch(`http://127.0.0.1:${httpPort}/lb/metrics`)).json();
const until = async (condition) => {
  for (let tries = 0; tries < 500; tries++) {
    if (await condition().catch(() => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail('a condition that never came');
};

const talk = async (url, number) => {
  const socket = new WebSocket(url, { ca: tls.cert, maxPayload: 64 << 20 });
  await once(socket, 'open');
  for (const size of [0, 1, 125, 126, 65_536, 1 << 20]) {
    const sent = randomBytes(size);
    socket.send(sent);
    const [got] = await once(socket, 'message');
    assert.ok(sent.equals(got), `${size} bytes`);
  }
  socket.send(`text ${number}`);
  assert.equal(String((await once(socket, 'message'))[0]), `text ${number}`);
  socket.ping('p');
  assert.equal(String((await once(socket, 'pong'))[0]), 'p');
  socket.close(4001, 'done');
  assert.equal((await once(socket, 'close'))[0], 4001);
};

try {
  await until(async () => (await figures()).health.healthy_backends === 1);
  for (const url of [`ws://127.0.0.1:${httpPort}/chat`, `wss://localhost:${wssPort}/chat`]) {
    await talk(url, 0);
    await Promise.all(Array.from({ length: 50 }, (_, number) => talk(url, number)));
    console.log(`${url}: 51 conversations`);
  }
  await until(async () => (await figures()).connections.client.tunnel === 0);
  const { opened, active } = (await figures()).tunnels;
  assert.deepEqual({ opened, active }, { opened: { upgrade: 51, tcp: 0, wss: 51 }, active: { upgrade: 0, tcp: 0, wss: 0 } });
} finally {
  balancer.kill('SIGTERM');
  await once(balancer, 'exit');
  plain.close();
  secure.close();
  rmSync(folder, { recursive: true });
}
