// Has the CloudEvents SDK send to a running Postrider, in both modes, and read what Postrider delivers: node cloudevents.mjs
// URL KEY. Prints one line of JSON for each check.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { CloudEvent, HTTP } from "cloudevents";
import { Webhook } from "standardwebhooks";

const [url, key] = process.argv.slice(2);

const arrived = new Map(); // by webhook-id
const receiver = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    arrived.set(request.headers["webhook-id"], { headers: request.headers, body: Buffer.concat(chunks).toString("utf8") });
    response.writeHead(204).end();
  });
});
await new Promise((listening) => receiver.listen(0, "127.0.0.1", listening));

async function call(method, path, headers = {}, body = undefined) {
  const response = await fetch(url + "/v1" + path, {
    method, body, headers: { ...headers, authorization: `Bearer ${key}` }, signal: AbortSignal.timeout(40_000),
  });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

const json = { "content-type": "application/json" };
const tenant = await call("POST", "/tenants", json, JSON.stringify({ name: "acme", uid: "acme" }));
const endpoint = await call("POST", "/tenants/acme/endpoints", json, JSON.stringify({
  url: `http://127.0.0.1:${receiver.address().port}/`, format: "cloudevents",
}));
const verifier = new Webhook(endpoint.signature.secret);

// delivered waits for an event that was accepted and gives what the SDK reads of it; that it is signed shows first.
async function delivered(receipt) {
  const event = await call("GET", `/tenants/acme/events/${receipt.id}?wait=20s`);
  assert.equal(event.status, "succeeded");
  const message = arrived.get(receipt.id);
  verifier.verify(message.body, message.headers);
  assert.equal(message.headers["content-type"], "application/cloudevents+json; charset=utf-8");
  assert.ok(HTTP.isEvent(message));
  const read = HTTP.toEvent(message);
  assert.ok(read.validate());
  return read;
}

const attributes = {
  source: "/orders?shop=1#a", type: "order.paid", subject: "café 100% “€” 😀", time: "2026-11-30T09:00:00.123Z",
  dataschema: "https://schemas.example/order", traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", shopname: "R&D <1>",
};
const payloads = {
  json: { datacontenttype: "application/json", data: { html: "<b>R&D</b>", n: [1, -0.5, 1e21], empty: {}, text: "naïve 日本 \u2028" } },
  array: { datacontenttype: "application/vnd.acme+json", data: [1, null, "x"] },
  text: { datacontenttype: "text/plain", data: "Hello, \"World\"\r\nnaïve 日本" },
  bytes: { datacontenttype: "application/octet-stream", data: new Uint8Array([0, 255, 254, 13, 10, 128]) },
  none: {},
};

function same(got, sent, mode) {
  for (const name of ["specversion", "id", "type", ...Object.keys(attributes)]) assert.equal(got[name], sent[name], name);
  if (sent.data === undefined) {
    assert.equal(got.data ?? "", "");
    return;
  }
  assert.equal(got.datacontenttype, sent.datacontenttype);
  if (sent.data instanceof Uint8Array) assert.deepEqual(Buffer.from(got.data), Buffer.from(sent.data), mode);
  else assert.deepEqual(got.data, sent.data, mode);
}

async function check(name, act) {
  try {
    await act();
    console.log(JSON.stringify({ name, verdict: "accept" }));
  } catch (error) {
    console.log(JSON.stringify({ name, verdict: "broken", detail: String(error.stack) }));
    process.exitCode = 1;
  }
}

// encoded does to attributes in headers what the HTTP binding wants (§ 3.1.3.2) and the SDK does not do.
function encoded(headers) {
  const encode = (value) => String(value).replace(/[^!#$&-~]/gu, (c) => encodeURIComponent(c));
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, name.startsWith("ce-") ? encode(value) : value]));
}

for (const mode of ["binary", "structured"]) {
  for (const [kind, payload] of Object.entries(payloads)) {
    await check(`${mode}: ${kind}`, async () => {
      const sent = new CloudEvent({ id: `${mode}-${kind}`, ...attributes, ...payload });
      const message = HTTP[mode](sent);
      const receipt = await call("POST", `/tenants/acme/events${mode === "binary" ? "" : "/order.paid"}`, encoded(message.headers), message.body);
      assert.equal(receipt.uid, sent.id);
      same(await delivered(receipt), sent, mode);
    });
  }
}
await check("extensions of other types", async () => {
  const sent = new CloudEvent({ id: "typed", ...attributes, count: 7, flag: false, data: { a: 1 } });
  const message = HTTP.structured(sent);
  const got = await delivered(await call("POST", "/tenants/acme/events", message.headers, message.body));
  assert.equal(got.count, 7);
  assert.equal(got.flag, false);
});
await check("batch", async () => {
  const sent = ["b1", "b2"].map((id) => new CloudEvent({ id, ...attributes, ...payloads.json }));
  const answer = await call("POST", "/tenants/acme/events:batch", { "content-type": "application/cloudevents-batch+json" },
    JSON.stringify(sent.map((event) => event.toJSON())));
  for (const [n, receipt] of answer.data.entries()) same(await delivered(receipt), sent[n], "batch");
});
await check("an event that was none", async () => {
  const receipt = await call("POST", "/tenants/acme/events", json, '{"type":"order.paid","uid":"own","payload":{"n": 1E+2}}');
  const got = await delivered(receipt);
  assert.equal(got.id, receipt.id);
  assert.equal(got.source, `/tenants/${tenant.id}`);
  assert.equal(got.time, receipt.created_at);
  assert.deepEqual(got.data, { n: 100 });
  assert.ok(arrived.get(receipt.id).body.includes('"data":{"n": 1E+2}'), "the bytes of the payload");
});
await check("what calls itself JSON", async () => {
  const got = await delivered(await call("POST", "/tenants/acme/events/order.paid", json, "{]"));
  assert.ok(arrived.size > 0 && got.id.startsWith("evt_"));
});
receiver.close();
receiver.closeAllConnections();
