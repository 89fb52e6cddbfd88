// Holds reservations, and frees one when a webhook says that it is over:
//
//   WEBHOOK_SECRET=… STORE=reservations.jsonl PORT=9000 PLACES=10 node subscriber.mjs
//
// What it answers to a webhook: 204 to the first delivery and to each duplicate; 401 if it is not signed by us or more than five
// minutes old; 503 if it could not be stored, and then it comes again. The rest is a fault that no retry mends: 400, 413.
import { createServer } from 'node:http';
import { env, exit } from 'node:process';
import { Store } from './store.mjs';
import { verify } from './verify.mjs';

const LIMIT = 64 << 10; // bytes of a body

const secret = env.WEBHOOK_SECRET ?? '';
if (secret.length < 16) {
  console.error('WEBHOOK_SECRET has to be the secret of the endpoint, 16 characters or more');
  exit(2);
}
const store = await Store.open(env.STORE ?? 'reservations.jsonl', Number(env.PLACES ?? 10));

async function webhook(request) {
  const body = await readBody(request);
  if (body === null) return [413];
  const delivery = verify(request.headers, body, secret, Date.now() / 1000);
  if (delivery === null) return [401];
  let event;
  try {
    event = JSON.parse(body);
  } catch {
    return [400];
  }
  if (typeof event?.reservation !== 'string' || typeof event.until !== 'string') return [400];
  try {
    const became = await store.expire(delivery, event.reservation, event.until);
    console.log(`${delivery} ${event.reservation}: ${became}`);
  } catch (error) {
    console.error(`${delivery} ${event.reservation}: ${error.message}`);
    return [503];
  }
  return [204];
}

async function reserve(request, name) {
  const body = await readBody(request);
  let until = NaN;
  try {
    until = Date.parse(JSON.parse(body).until);
  } catch { /* it stays NaN */ }
  if (Number.isNaN(until)) return [400];
  try {
    const made = await store.reserve(name, new Date(until).toISOString());
    return made ? [201, made] : [409];
  } catch (error) {
    console.error(`${name}: ${error.message}`);
    return [503];
  }
}

/** The whole body, or null if it is over the limit. What is over it is not read. */
async function readBody(request) {
  if (Number(request.headers['content-length']) > LIMIT) return null;
  const chunks = [];
  let length = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) { // there is an answer to give yet
    length += chunk.length;
    if (length > LIMIT) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function answer(request) {
  const name = /^\/reservations\/([\w-]{1,64})$/.exec(request.url)?.[1];
  const call = `${request.method} ${name ? '/reservations' : request.url}`;
  switch (call) {
    case 'POST /webhooks': return webhook(request);
    case 'PUT /reservations': return reserve(request, name);
    case 'GET /reservations': return store.get(name) ? [200, store.get(name)] : [404];
    case 'GET /places': return [200, { free: store.free }];
    default: return [404];
  }
}

const server = createServer(async (request, response) => {
  try {
    const [status, body] = await answer(request);
    // Whoever sends more than is taken is not listened to any further.
    if (status === 413) response.setHeader('connection', 'close');
    if (body) response.setHeader('content-type', 'application/json');
    response.writeHead(status).end(body && `${JSON.stringify(body)}\n`);
  } catch (error) {
    if (!request.destroyed) console.error(error.message);
    response.destroy(); // the request broke off
  }
});
server.requestTimeout = 15_000; // milliseconds for a whole request
server.listen(Number(env.PORT ?? 9000), '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}`));

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, () => {
    server.close(async () => {
      await store.close();
      exit(0);
    });
    server.closeIdleConnections();
  });
}
