// One person of the chat by the npm package `ws` (part of `make clients`): registers, sends a signed message, gets its ack and
// the message itself, finds it in the history, says goodbye.
//
//   node test/clients/chat_ws.mjs URL CA USERNAME
import { constants, createHash, generateKeyPairSync, sign } from 'node:crypto';
import { createRequire } from 'node:module';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import assert from 'node:assert/strict';

const { WebSocket } = createRequire(join(process.cwd(), 'x.js'))('ws');
const [url, ca, username] = process.argv.slice(2);

const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const spki = publicKey.export({ type: 'spki', format: 'der' });
const signed = (...parts) => sign('sha256', Buffer.from(parts.join('\n')),
  { key: privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }).toString('base64');

const socket = new WebSocket(url, url.startsWith('wss') ? { ca: readFileSync(ca) } : {});
const inbox = [];
let wake = () => {};
socket.on('message', (data, binary) => {
  assert.equal(binary, false);
  inbox.push(JSON.parse(String(data)));
  wake();
});
const next = async (wanted) => {
  for (;;) {
    const at = inbox.findIndex((message) => wanted(message) || message.type === 'error');
    if (at >= 0) return inbox.splice(at, 1)[0];
    await new Promise((resolve) => { wake = resolve; });
  }
};
const say = (message) => socket.send(JSON.stringify(message));

await once(socket, 'open');
const timestamp = new Date().toISOString();
const fingerprint = createHash('sha256').update(spki).digest('base64');
say({ type: 'register', username, public_key: spki.toString('base64'), timestamp,
  signature: signed('dlb-register-v1', username, timestamp, fingerprint) });
assert.deepEqual(await next((message) => message.type === 'registered'), { type: 'registered', username });

const [id, msg] = [`${username}-1`, 'héllo \u{1f600} from ws'];
say({ type: 'message', 'message-id': id, msg, signature: signed('dlb-message-v1', username, id, msg) });
const ack = await next((message) => message.type === 'ack');
assert.deepEqual([ack['message-id'], ack.duplicate], [id, false]);
const live = (await next((message) => message.type === 'message' && message.message['message-id'] === id)).message;
assert.deepEqual([live.msg, live['client-name'], live.sequence, live.source], [msg, username, ack.sequence, 'wss']);
say({ type: 'load_history', limit: 100 });
const history = await next((message) => message.type === 'history');
assert.deepEqual(history.messages.filter((message) => message['message-id'] === id), [live]);
socket.close(1000, 'bye');
assert.equal((await once(socket, 'close'))[0], 1000);
