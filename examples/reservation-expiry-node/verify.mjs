// Checks where a delivery comes from: scheme timestamped-hex.
import { createHmac, timingSafeEqual } from 'node:crypto';

const WINDOW = 5 * 60; // seconds that a delivery's timestamp may be off, to either side

/**
 * Returns the delivery's id, or null if its head is not whole, its timestamp is stale or its signature is not ours.
 * body is the raw body, as it came: JSON that was read and written again has other bytes, and another signature.
 * now is in seconds.
 */
export function verify(headers, body, secret, now) {
  const id = headers['x-delivery-id'] ?? '';
  const timestamp = headers['x-delivery-timestamp'] ?? '';
  const signature = headers['x-delivery-signature'] ?? '';
  // Node.js joins a header that came twice by a comma, which fits none of these.
  if (!/^[A-Za-z0-9_.:-]{1,128}$/.test(id) || !/^[0-9]{1,12}$/.test(timestamp) || !/^[0-9a-f]{64}$/.test(signature)) {
    return null;
  }
  if (Math.abs(now - Number(timestamp)) > WINDOW) return null;
  const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest();
  return timingSafeEqual(expected, Buffer.from(signature, 'hex')) ? id : null;
}
