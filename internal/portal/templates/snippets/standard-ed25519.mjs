import { createPublicKey, verify as check } from "node:crypto";

// headers: req.headers; body: a Buffer of what came, byte for byte; publicKey: whpk_…
export function verify(headers, body, publicKey) {
  const raw = Buffer.from(publicKey.replace(/^whpk_/, ""), "base64");
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]);
  const key = createPublicKey({ key: der, format: "der", type: "spki" });
  const id = headers["webhook-id"], timestamp = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) return false; // missing, too old or too new
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  return (headers["webhook-signature"] ?? "").split(" ")
    .some((got) => got.startsWith("v1a,") && check(null, signed, key, Buffer.from(got.slice(4), "base64")));
}
