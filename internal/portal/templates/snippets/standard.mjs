import { createHmac, timingSafeEqual } from "node:crypto";

// headers: req.headers; body: a Buffer of what came, byte for byte; secret: whsec_…
export function verify(headers, body, secret) {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const id = headers["webhook-id"], timestamp = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) return false; // missing, too old or too new
  const want = "v1," + createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
  return (headers["webhook-signature"] ?? "").split(" ").some((got) => equal(got, want));
}

function equal(a, b) {
  const [x, y] = [Buffer.from(a), Buffer.from(b)];
  return x.length === y.length && timingSafeEqual(x, y);
}
