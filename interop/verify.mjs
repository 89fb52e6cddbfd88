// Judges signed messages with the libraries that receivers use. Standard input is one JSON object a line:
//
//   {"name", "scheme", "verifiers": ["svix", …], "secret", "signature_header", "headers": {…}, "body": base64,
//    "expect": "accept" | "refuse"}
//
// Standard output is one JSON object for each message and verifier: {"name", "verifier", "verdict", "detail"}. The
// verdict is "accept", "refuse" or, when a library stumbles over anything but the signature or the time, "broken".
// The exit code is 1 when any verdict is not the expected one.
import { createHmac, createPublicKey, timingSafeEqual, verify as verifyBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { verify as octokitVerify } from "@octokit/webhooks-methods";
import * as standardWebhooks from "standardwebhooks";
import Stripe from "stripe";
import * as svix from "svix";

const stripe = new Stripe("sk_test_never_sent");

// Each takes a message and says whether the signature is good; it throws when it cannot say.
const verifiers = {
  standardwebhooks: (m) =>
    unlessThrown(standardWebhooks.WebhookVerificationError, () =>
      new standardWebhooks.Webhook(m.secret).verify(m.body, m.headers, { jsonParse: false })),

  // Parses the body as JSON once the signature is good, so it is handed JSON alone.
  svix: (m) =>
    unlessThrown(svix.WebhookVerificationError, () => new svix.Webhook(m.secret).verify(m.body, m.headers)),

  // As svix: JSON alone.
  "stripe.constructEvent": (m) =>
    unlessThrown(Stripe.errors.StripeSignatureVerificationError, () =>
      stripe.webhooks.constructEvent(m.body, m.headers[m.signature_header], m.secret)),

  "stripe.verifyHeader": (m) =>
    unlessThrown(Stripe.errors.StripeSignatureVerificationError, () =>
      stripe.webhooks.signature.verifyHeader(m.body, m.headers[m.signature_header], m.secret)),

  octokit: (m) => octokitVerify(m.secret, m.body.toString(), m.headers[m.signature_header]),

  // The libraries above turn the body into text first. This one takes any bytes, and knows every scheme; it does not
  // look at the time.
  "node:crypto": (m) => signedWith[m.scheme](m),
};

const signedWith = {
  standard: (m) => {
    const key = Buffer.from(m.secret.slice("whsec_".length), "base64");
    const want = createHmac("sha256", key).update(standardHead(m)).update(m.body).digest();
    return signatures(m, " ", "v1,").some((s) => equal(Buffer.from(s, "base64"), want));
  },
  "standard-ed25519": (m) => {
    const x = Buffer.from(m.secret.slice("whpk_".length), "base64").toString("base64url");
    const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
    const signed = Buffer.concat([Buffer.from(standardHead(m)), m.body]);
    return signatures(m, " ", "v1a,").some((s) => verifyBytes(null, signed, key, Buffer.from(s, "base64")));
  },
  stripe: (m) => {
    const [time] = signatures(m, ",", "t=");
    const want = createHmac("sha256", m.secret).update(`${time}.`).update(m.body).digest();
    return signatures(m, ",", "v1=").some((s) => equal(Buffer.from(s, "hex"), want));
  },
  github: (m) => {
    const want = createHmac("sha256", m.secret).update(m.body).digest();
    return signatures(m, " ", "sha256=").some((s) => equal(Buffer.from(s, "hex"), want));
  },
  "timestamped-hex": (m) => {
    const head = `${m.headers["x-delivery-timestamp"]}.`;
    const want = createHmac("sha256", m.secret).update(head).update(m.body).digest();
    return signatures(m, " ", "").some((s) => equal(Buffer.from(s, "hex"), want));
  },
};

function standardHead(m) {
  return `${m.headers["webhook-id"]}.${m.headers["webhook-timestamp"]}.`;
}

function signatures(m, separator, version) {
  const parts = m.headers[m.signature_header].split(separator);
  return parts.filter((part) => part.startsWith(version)).map((part) => part.slice(version.length));
}

function equal(a, b) {
  return a.length === b.length && timingSafeEqual(a, b);
}

function unlessThrown(refusal, check) {
  try {
    check();
    return true;
  } catch (error) {
    if (error instanceof refusal) return false;
    throw error;
  }
}

async function judge(message, verifier) {
  try {
    if (!Object.hasOwn(verifiers, verifier)) throw new Error(`there is no verifier ${verifier}`);
    const good = await verifiers[verifier](message);
    if (typeof good !== "boolean") throw new Error(`answered ${good}`);
    return { verdict: good ? "accept" : "refuse", detail: "" };
  } catch (error) {
    return { verdict: "broken", detail: String(error) };
  }
}

let passed = 0;
let failed = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  message.body = Buffer.from(message.body, "base64");
  for (const verifier of message.verifiers) {
    const result = await judge(message, verifier);
    result.verdict === message.expect ? passed++ : failed++;
    console.log(JSON.stringify({ name: message.name, verifier, ...result }));
  }
}
console.error(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
