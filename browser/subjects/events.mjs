// Events: who got one, who did not and why.
import assert from "node:assert/strict";

export default async (check, stage) => {
  await check("an event shows who did not get it, and why", async (t) => {
    const page = await t.as("viewer");
    await page.open(`/console/events?tenant=${stage.tenants.filtering}`);
    await page.locator(`a[href$="${stage.events.filtered}"]`).click();
    const region = page.getByRole("region", { name: "Endpoints that did not get it" });
    const text = await region.innerText();
    for (const reason of ["filter", "filter_error", "event_type"]) assert.match(text, new RegExp(reason), reason);
  });

  await check("a filter is in the address, and finds by type", async (t) => {
    const page = await t.as("viewer");
    await page.open("/console/events");
    await page.getByLabel("Tenant").fill(stage.tenants.script);
    await page.getByLabel("Event type").fill("hostile.gone");
    await page.getByRole("button", { name: "Show" }).click();
    await page.waitForURL(/type=hostile.gone/);
    assert.equal(await page.locator("tbody tr[data-row]").count(), 1);
    await page.locator(`a[href$="${stage.events.gone}"]`).click();
    await page.getByText(stage.hostile.template).first().waitFor();
  });

  await check("the payload comes as a file, whatever it is", async (t) => {
    const page = await t.as("viewer");
    for (const name of ["page", "image", "bytes", "empty"]) {
      await page.open(`/console/events/${stage.events[`payload-${name}`]}`);
      const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Payload", exact: true }).click()]);
      assert.ok(await file.path(), name);
      assert.equal(page.url(), `${stage.base}/console/events/${stage.events[`payload-${name}`]}`);
    }
  });

  await check("replay sends it again", async (t) => {
    const event = await t.send("act-event", "order.paid", { replay: true });
    await t.eventually("the delivery", async () => (await t.received("act-event")).length === 1);
    const page = await t.as("support");
    await page.open(`/console/events/${event}`);
    await page.getByRole("button", { name: "Replay" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.waitForURL("**/console/jobs/job_*");
    await t.eventually("the second", async () => (await t.received("act-event")).length === 2);
    const [first, second] = await t.received("act-event");
    assert.deepEqual([second.Event, second.Body], [first.Event, first.Body]);
  });

  await check("cancel stops what is not delivered", async (t) => {
    const event = await t.send("stuck-event", "order.paid", {});
    await t.eventually("the first try", async () => (await t.api("GET", `/v1/deliveries?endpoint=${stage.endpoints["stuck-event"].ID}`)).data[0]?.attempts);
    const page = await t.as("support");
    await page.open(`/console/events/${event}`);
    await page.getByRole("button", { name: "Cancel" }).first().click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.getByText("1 delivery cancelled").waitFor();
    await t.audited(event, "event.cancelled");
  });
};
