// Tells a tenant that an order was paid:
//
//   POSTRIDER_API_KEY=prk_… node produce.mjs ORDER AMOUNT
import { argv, env, exit } from 'node:process';
import { enqueue } from './enqueue.mjs';

const [order, amount] = argv.slice(2);
if (!order || !amount || !env.POSTRIDER_API_KEY) {
  console.error('usage: POSTRIDER_API_KEY=prk_… [POSTRIDER_URL=http://127.0.0.1:8080] [TENANT=demo] node produce.mjs ORDER AMOUNT');
  exit(2);
}
const server = { url: env.POSTRIDER_URL ?? 'http://127.0.0.1:8080', key: env.POSTRIDER_API_KEY };
try {
  const receipt = await enqueue(server, {
    tenant: env.TENANT ?? 'demo',
    type: 'order.paid',
    uid: `order-${order}-paid`, // the order is paid once, however often this program is started
    payload: { order, amount },
  });
  console.log(`${receipt.id} ${receipt.status}, ${receipt.deliveries} to tell`);
} catch (error) {
  console.error(`order ${order}: ${error.message}`);
  exit(1);
}
