// The npm package `ws` talks to the backend's own WebSocket server (part of `make clients`), plain and by TLS with the
// certificate that the backend made: messages of all sizes, fragments, pings, compression offered and not taken, a
// clean close with its code, and a close 1001 for all when the backend leaves.
//
//   npm install ws && node test/clients/websocket_backend.mjs BACKEND_PROGRAM
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import assert from 'node:assert/strict';

const { WebSocket } = createRequire(join(process.cwd(), 'x.js'))('ws');
const folder = mkdtempSync(join(tmpdir(), 'dlb-ws-'));
const freePort = async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
};

const [httpPort, wsPort] = [await freePort(), await freePort()];
const backend = spawn(process.argv[2] ?? 'backend/backend',
  [`--data-dir=${folder}`, `--http-port=${httpPort}`, `--ws-port=${wsPort}`, '--ws-echo=true', '--ws-plain=true',
    '--ws-ping-interval=200ms', '--drain-notice=500ms'], { stdio: ['ignore', 'inherit', 'inherit'] });

const open = async (url) => {
  const ca = url.startsWith('wss') ? readFileSync(join(folder, 'tls', 'tls.crt')) : undefined;
  const socket = new WebSocket(url, { ca, maxPayload: 64 << 20 });
  await once(socket, 'open');
  assert.equal(socket.extensions, '');  // offered by default, never taken
  return socket;
};

const talk = async (url, number) => {
  const socket = await open(url);
  for (const size of [0, 1, 125, 126, 65_535, 65_536, 1 << 20]) {
    const sent = randomBytes(size);
    socket.send(sent);
    const [got, binary] = await once(socket, 'message');
    assert.ok(binary && sent.equals(got), `${size} bytes`);
  }
  socket.send('in ', { fin: false });
  socket.send('several ', { fin: false });
  socket.ping('between');
  socket.send(`pieces ${number}`, { fin: true });
  const [pong, message] = await Promise.all([once(socket, 'pong'), once(socket, 'message')]);
  assert.equal(String(pong[0]), 'between');
  assert.equal(String(message[0]), `in several pieces ${number}`);
  socket.close(4001, 'done');
  assert.equal((await once(socket, 'close'))[0], 4001);
};

try {
  for (let tries = 0; tries < 500; tries++) {
    const answer = await fetch(`http://127.0.0.1:${httpPort}/health`).catch(() => null);
    if (answer?.status === 200) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const urls = [`ws://127.0.0.1:${httpPort}/echo`, `wss://localhost:${wsPort}/echo`];
  for (const url of urls) {
    await talk(url, 0);
    await Promise.all(Array.from({ length: 50 }, (_, number) => talk(url, number)));
    console.log(`${url}: 51 conversations`);
  }
  const kept = await Promise.all(urls.map(open));
  await Promise.all(kept.map((socket) => once(socket, 'ping')));
  const closes = kept.map((socket) => once(socket, 'close'));
  backend.kill('SIGTERM');
  for (const [code] of await Promise.all(closes)) assert.equal(code, 1001);
} finally {
  backend.kill('SIGTERM');
  const [code] = backend.exitCode === null ? await once(backend, 'exit') : [backend.exitCode];
  assert.equal(code, 0);
  rmSync(folder, { recursive: true });
}
