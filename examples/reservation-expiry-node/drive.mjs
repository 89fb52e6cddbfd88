// Makes a reservation, has Postrider say when it is over, and waits until the place is free again:
//
//   POSTRIDER_API_KEY=prk_… SUBSCRIBER=http://127.0.0.1:9000 node drive.mjs RESERVATION SECONDS
import { argv, env, exit } from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { enqueue } from '../producer-node/enqueue.mjs';

const [name, seconds] = argv.slice(2);
const subscriber = env.SUBSCRIBER ?? 'http://127.0.0.1:9000';
if (!name || !(Number(seconds) > 0) || !env.POSTRIDER_API_KEY) {
  console.error('usage: POSTRIDER_API_KEY=prk_… [POSTRIDER_URL=…] [TENANT=demo] [SUBSCRIBER=…] node drive.mjs RESERVATION SECONDS');
  exit(2);
}
const until = new Date(Date.now() + Number(seconds) * 1000).toISOString();
const patience = AbortSignal.timeout((Number(seconds) + 60) * 1000);

const made = await fetch(`${subscriber}/reservations/${name}`, {
  method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ until }), signal: patience,
});
if (made.status !== 201) {
  console.error(`no reservation ${name}: ${made.status}`);
  exit(1);
}
const receipt = await enqueue({ url: env.POSTRIDER_URL ?? 'http://127.0.0.1:8080', key: env.POSTRIDER_API_KEY }, {
  tenant: env.TENANT ?? 'demo',
  type: 'reservation.expired',
  uid: `reservation-${name}-${Date.parse(until)}`,
  payload: { reservation: name, until },
  deliverAt: until,
  signal: patience,
});
console.log(`${name} is held until ${until}; ${receipt.id} is ${receipt.status}`);

for (;;) {
  const now = await (await fetch(`${subscriber}/reservations/${name}`, { signal: patience })).json();
  if (now.state === 'freed') break;
  await sleep(50, undefined, { signal: patience });
}
const late = Date.now() - Date.parse(until);
const { free } = await (await fetch(`${subscriber}/places`, { signal: patience })).json();
console.log(`${name} is free again, ${late} ms after its end; ${free} places are free`);
