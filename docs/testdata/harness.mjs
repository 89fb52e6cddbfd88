// Hands requests to the README's receiver, over HTTP on loopback. Standard input is one JSON object a line, standard
// output one status a line.
import { once } from "node:events";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { receiver } from "./receiver.mjs";

for await (const line of createInterface({ input: process.stdin })) {
  const { key, headers, body } = JSON.parse(line);
  const server = createServer(receiver(key)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/`, {
    method: "POST",
    headers: { ...headers, connection: "close" },
    body: Buffer.from(body, "base64"),
  });
  await answer.arrayBuffer();
  console.log(answer.status);
  server.close();
}
