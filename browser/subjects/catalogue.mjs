// The catalogue of event types.
import assert from "node:assert/strict";

export default async (check, stage) => {
  await check("a type is put in, changed and taken out", async (t) => {
    const page = await t.as("admin");
    page.allow.add(422);
    await page.open("/console/event-types");
    await page.getByRole("link", { name: "New event type" }).click();
    await page.getByLabel("Name").fill("browser.made");
    await page.getByLabel("Description").fill(stage.hostile.image);
    await page.getByLabel("JSON Schema").fill(`{"type": "</textarea><script>window.__pwned='schema'</script>"}`);
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".field-fault").first().waitFor();
    assert.match(await page.getByLabel("JSON Schema").inputValue(), /<script>/);
    await page.getByLabel("JSON Schema").fill(JSON.stringify({ type: "object", required: ["id"], description: stage.hostile.script }));
    await page.getByLabel("Example payload").fill(JSON.stringify({ id: stage.hostile.script }));
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("The event type is in the catalogue.").waitFor();
    assert.equal((await t.api("GET", "/v1/event-types/browser.made")).description, stage.hostile.image);
    await page.getByLabel("Archived").check();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("The event type is changed.").waitFor();
    assert.equal((await t.api("GET", "/v1/event-types/browser.made")).archived, true);
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.getByText("is out of the catalogue").waitFor();
    for (const action of ["event_type.created", "event_type.updated", "event_type.deleted"]) {
      await t.eventually(action, async () => (await t.api("GET", "/v1/audit-log?limit=100")).data.some((row) => row.action === action));
    }
  });

  await check("a viewer reads it", async (t) => {
    const page = await t.as("viewer");
    await page.open("/console/event-types");
    await page.getByRole("link", { name: "hostile.type", exact: true }).click();
    await page.getByText(stage.hostile.turned.slice(0, 7)).first().waitFor();
    assert.equal(await page.getByRole("button", { name: "Save" }).count(), 0);
  });
};
