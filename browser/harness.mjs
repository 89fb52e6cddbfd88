// What all subjects share: visitors that are signed in, checks that are printed, and a watch over every page that is opened.
import assert from "node:assert/strict";
import { watch } from "./watch.mjs";

// How long is waited for what should take a moment; only a failure waits it out.
const patience = 20_000;

export class Harness {
  // start signs in once for each role.
  static async start(browser, stage) {
    const h = new Harness();
    Object.assign(h, { browser, stage, cookies: {}, took: [], kept: new Map() });
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
    for (const [role, more] of Object.entries({ portal: {}, "portal-reader": { read_only: true } })) {
      const visit = new Visit(h);
      h.cookies[role] = await (await visit.enter("script", more)).context().storageState();
      await visit.end();
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
        detail = [err.message, ...places, ...visit.seen, ...await visit.look()].join("\n");
      } finally {
        await visit.end();
      }
      this.took.push([Date.now() - began, `${subject}: ${name}`]);
      console.log(JSON.stringify({ subject, name, ok: !detail, detail }));
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
    const context = await this.context(role, options);
    this.contexts.push(context);
    return this.open(context, () => this.seen);
  }

  // kept gives a browser of somebody as `as` does, one that other checks of the same subject have used: opening one takes long.
  async kept(role, options) {
    const kept = this.harness.kept.get(role + JSON.stringify(options)) ?? {};
    kept.seen = this.seen;
    if (!kept.page) {
      this.harness.kept.set(role + JSON.stringify(options), kept);
      kept.page = await this.open(await this.context(role, options), () => kept.seen);
    }
    kept.page.allow.clear();
    return kept.page;
  }

  context(role, options) {
    return this.harness.browser.newContext({
      baseURL: this.stage.base, viewport: { width: 1280, height: 800 }, storageState: role ? this.harness.cookies[role] : undefined, ...options,
    });
  }

  async open(context, seen) {
    context.setDefaultTimeout(patience);
    const allow = new Set();
    await watch(context, this.stage.base, seen, allow);
    const page = await context.newPage();
    page.allow = allow;
    // open goes to a path and insists on the status, 200 if nothing is said.
    page.open = async (path, status = 200) => {
      if (status >= 400) allow.add(status);
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
    return this.api("GET", `/v1/deliveries/${this.stage.deliveries[name]}`);
  }

  // send makes an event for an endpoint of the stage alone, and gives its id.
  async send(name, type, payload) {
    const e = this.stage.endpoints[name];
    return (await this.api("POST", `/v1/tenants/${e.Tenant}/events`, { type, payload, endpoint_ids: [e.ID] })).id;
  }

  // received gives what the receiver of an endpoint has got.
  async received(name) { return (await fetch(`${this.stage.control}/receivers/${name}`)).json(); }

  // link makes a link into a tenant's portal, and gives its path.
  async link(tenant, more = {}) {
    const { url } = await this.api("POST", `/v1/tenants/${this.stage.tenants[tenant]}/portal-sessions`, more);
    return url.slice(new URL(url).origin.length);
  }

  // enter opens a browser of somebody who has come into a tenant's portal by a link.
  async enter(tenant, more, options) {
    const page = await this.as("", options);
    await page.open(await this.link(tenant, more));
    if (options?.javaScriptEnabled === false) await page.getByRole("button", { name: "Continue" }).click();
    await page.waitForURL("**/portal/");
    return page;
  }

  // audited waits until the audit log has what was done to a thing.
  async audited(object, action) {
    return this.eventually(`${action} in the audit log`, async () => {
      const { data } = await this.api("GET", `/v1/audit-log?object=${object}`);
      return data.find((row) => row.action === action);
    });
  }

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

  // look says where the visitors are and what they see.
  async look() {
    const pages = this.contexts.flatMap((c) => c.pages());
    return Promise.all(pages.map(async (p) => `at ${p.url()}: ${(await p.locator("main").innerText({ timeout: 1000 }).catch(() => "")).slice(0, 700)}`));
  }

  async end() { await Promise.all(this.contexts.map((c) => c.close())); }
}
