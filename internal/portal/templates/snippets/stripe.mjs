import { createHmac, timingSafeEqual } from "node:crypto";

// headers: req.headers; body: a Buffer of what came, byte for byte; secret: as it was shown
export function verify(headers, body, secret) {
  const parts = (headers["signature-header-name"] ?? "").split(",").map((part) => part.split("="));
  const timestamp = parts.find(([name]) => name === "t")?.[1];
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) return false; // missing, too old or too new
  const want = createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex");
  return parts.some(([name, got]) => name === "v1" && equal(got ?? "", want));
}

function equal(a, b) {
  const [x, y] = [Buffer.from(a), Buffer.from(b)];
  return x.length === y.length && timingSafeEqual(x, y);
}
