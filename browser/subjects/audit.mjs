// The audit log: who did what, with filters in its address.
import assert from "node:assert/strict";

export default async (check, stage) => {
  await check("what is done on pages is in it, by whom", async (t) => {
    const { id } = await t.api("POST", "/v1/tenants", { name: "Audited" });
    const page = await t.as("admin");
    await page.open(`/console/tenants/${id}/edit`);
    await page.getByLabel("Name").fill(stage.hostile.equals);
    await page.getByRole("button", { name: "Save" }).click();
    await page.open("/console/audit-log");
    await page.getByLabel("Object").fill(id);
    await page.getByLabel("Action").selectOption("tenant.updated");
    await page.getByRole("button", { name: "Show" }).click();
    await page.waitForURL(/action=tenant.updated/);
    const row = page.locator("tbody tr[data-row]");
    assert.equal(await row.count(), 1);
    assert.match(await row.innerText(), /tenant\.updated[^]*127\.0\.0\.1/);
  });

  await check("none but administrators see it", async (t) => {
    for (const role of ["viewer", "support"]) await (await t.as(role)).open("/console/audit-log", 403);
  });
};
