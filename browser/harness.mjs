// What all subjects share: visitors that are signed in, checks that are printed, and a watch over every page that is opened.
import assert from "node:assert/strict";
import { watch } from "./watch.mjs";

// How long is waited for what should take a moment; only a failure waits it out.
const patience = 10_000;

export class Harness {
  // start signs in once for each role.
  static async start(browser, stage) {
    const h = new Harness();
    Object.assign(h, { browser, stage, cookies: {} });
    for (const [role, key] of Object.entries(stage.keys)) {
      const context = await browser.newContext({ baseURL: stage.base });
      const page = await context.newPage();
      await page.goto("/console/signin");
      await page.getByLabel("API key").fill(key);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.waitForURL("**/console/");
      h.cookies[role] = await context.storageState();
      await context.close();
    }
    return h;
  }

  // look has a subject make its checks, and says how many it made.
  async look(subject, checks) {
    let made = 0;
    await checks(async (name, act) => {
      made++;
      const began = Date.now();
      const visit = new Visit(this);
      let detail = "";
      try {
        await act(visit);
        visit.settle();
      } catch (err) {
        const places = err.stack.split("\n").filter((line) => line.includes("/browser/subjects/"));
        detail = [err.message, ...places, ...visit.seen].join("\n");
      } finally {
        await visit.end();
      }
      console.log(JSON.stringify({ subject, name, ok: !detail, detail, took: Date.now() - began }));
    }, this.stage);
    return made;
  }
}

// Visit is one check's: its pages are watched, and closed when it is over.
class Visit {
  constructor(harness) {
    Object.assign(this, { harness, stage: harness.stage, contexts: [], seen: [] });
  }

  // as opens a browser of somebody: a role, or "" for who is not signed in. options are those of a browser context.
  async as(role, options = {}) {
    const context = await this.harness.browser.newContext({
      baseURL: this.stage.base, viewport: { width: 1280, height: 800 }, storageState: role ? this.harness.cookies[role] : undefined, ...options,
    });
    this.contexts.push(context);
    context.setDefaultTimeout(patience);
    const faults = await watch(context, this.stage.base, this.seen);
    const page = await context.newPage();
    page.allow = faults.allow;
    // open goes to a path and insists on the status, 200 if nothing is said.
    page.open = async (path, status = 200) => {
      if (status >= 400) faults.allow.add(status);
      const answer = await page.goto(path);
      assert.equal(answer.status(), status, `the status of ${path}`);
      return answer;
    };
    return page;
  }

  // api calls the API as an administrator and gives the answer's JSON.
  async api(method, path, body) {
    const answer = await fetch(this.stage.base + path, {
      method, headers: { authorization: `Bearer ${this.stage.keys.admin}`, "content-type": "application/json" }, body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text && JSON.parse(text);
  }

  // deliveryOf gives the only delivery of the event that was made for an endpoint of the stage.
  async deliveryOf(name) {
    const { data } = await this.api("GET", `/v1/deliveries?q=${this.stage.events[name]}`);
    return data[0];
  }

  // send makes an event for an endpoint of the stage alone, and gives its id.
  async send(name, type, payload) {
    const e = this.stage.endpoints[name];
    return (await this.api("POST", `/v1/tenants/${e.Tenant}/events`, { type, payload, endpoint_ids: [e.ID] })).id;
  }

  // received gives what the receiver of an endpoint has got.
  async received(name) { return (await fetch(`${this.stage.control}/receivers/${name}`)).json(); }

  // answer has the receiver of an endpoint answer with this status from now on.
  async answer(name, status) {
    assert.ok((await fetch(`${this.stage.control}/receivers/${name}/${status}`, { method: "POST" })).ok);
  }

  // eventually waits until the function gives something, and gives that.
  async eventually(what, get) {
    for (const until = Date.now() + patience; ;) {
      const value = await get();
      if (value) return value;
      if (Date.now() > until) assert.fail(`${what} does not come about`);
      await new Promise((go) => setTimeout(go, 50));
    }
  }

  settle() { assert.deepEqual(this.seen, [], "what pages did that they must not"); }

  async end() { await Promise.all(this.contexts.map((c) => c.close())); }
}
