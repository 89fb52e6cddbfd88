import { createHmac, timingSafeEqual } from "node:crypto";

// headers: req.headers; body: a Buffer of what came, byte for byte; secret: as it was shown
export function verify(headers, body, secret) {
  const want = "sha256=" + createHmac("sha256", secret).update(body).digest("hex");
  return equal(headers["x-hub-signature-256"] ?? "", want);
}

function equal(a, b) {
  const [x, y] = [Buffer.from(a), Buffer.from(b)];
  return x.length === y.length && timingSafeEqual(x, y);
}
