// Enqueues an event over HTTP. It has no dependency: copy it. Node.js 20 or newer.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const TRIES = 7; // with the waits below, about thirteen seconds besides what the tries take
const FIRST_WAIT = 200; // milliseconds; each wait is up to twice the one before
const LONGEST_WAIT = 10_000;
const LONGEST_ASKED = 60_000; // a Retry-After beyond that is for whoever called to come back to
const TIMEOUT = 30_000; // of one try

/** A refusal. `status` is the answer's, `errors` says what is wrong where: [{ pointer: '/uid', detail: '…' }]. */
export class Refused extends Error {
  constructor(status, problem) {
    const places = (problem.errors ?? []).map((e) => `${e.pointer}: ${e.detail}`);
    super(`${places.join('; ') || problem.detail || 'refused'} (${status})`);
    Object.assign(this, { name: 'Refused', status, errors: problem.errors ?? [] });
  }
}

/**
 * Enqueues an event and returns its receipt: { id, type, status, deliveries, … }. It comes after the commit.
 *
 * Whatever may pass by itself is tried again: no answer, 408, 425, 429 and 5xx. An answer that got lost may have been a yes, so
 * all tries have the same Idempotency-Key: they make one event. Give a key or a uid of your own, and calls are safe to
 * repeat as well, such as after a crash.
 */
export async function enqueue(server, event) {
  const { tenant, type, payload, uid, groupKey, deliverAt, key = randomUUID(), signal } = event;
  const url = new URL(`/v1/tenants/${encodeURIComponent(tenant)}/events/${encodeURIComponent(type)}`, server.url);
  if (uid) url.searchParams.set('uid', uid);
  if (groupKey) url.searchParams.set('group_key', groupKey);
  if (deliverAt) url.searchParams.set('deliver_at', new Date(deliverAt).toISOString());
  const body = JSON.stringify(payload); // once: all tries send the same bytes, and those are delivered

  for (let tries = 1; ; tries++) {
    const tried = await attempt(url, server.key, key, body, signal);
    if (tried.receipt) return tried.receipt;
    signal?.throwIfAborted();
    if (!tried.mayPass) throw tried.error;
    if (tries === TRIES || tried.asked > LONGEST_ASKED) {
      throw new Error(`gave up after ${tries} tries: ${tried.error.message}`, { cause: tried.error });
    }
    const full = Math.min(FIRST_WAIT * 2 ** (tries - 1), LONGEST_WAIT);
    await sleep(Math.max(full * (0.5 + Math.random() / 2), tried.asked), undefined, { signal });
  }
}

async function attempt(url, apiKey, idempotencyKey, body, signal) {
  const timeout = AbortSignal.timeout(TIMEOUT);
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', 'idempotency-key': idempotencyKey,
      },
      body,
      redirect: 'manual', // whoever is redirected to would get the payload
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const text = await answer.text();
    if (answer.status === 202) return { receipt: JSON.parse(text) };
    return {
      error: new Refused(answer.status, problemOf(text)),
      mayPass: [408, 425, 429].includes(answer.status) || answer.status >= 500,
      asked: retryAfter(answer.headers.get('retry-after')),
    };
  } catch (error) { // no answer, or only a part of one
    return { error: new Error(`no answer: ${error.cause?.message || error.message}`, { cause: error }), mayPass: true, asked: 0 };
  }
}

function problemOf(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {}; // a proxy's page
  }
}

/** Seconds or a date, as milliseconds from now. */
function retryAfter(value) {
  if (!value) return 0;
  const wait = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return wait > 0 ? wait : 0; // garbage is NaN
}
