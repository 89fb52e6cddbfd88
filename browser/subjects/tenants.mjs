// Tenants: making and changing one, and the link into its portal.
import assert from "node:assert/strict";

export default async (check, stage) => {
  const hostile = stage.hostile;

  await check("one is made, changed and deleted", async (t) => {
    const page = await t.as("admin");
    await page.open("/console/tenants");
    await page.getByRole("link", { name: "New tenant" }).click();
    await page.getByLabel("Name").fill(hostile.image);
    await page.getByLabel("uid").fill("browser-made");
    await page.getByLabel("Metadata").fill(JSON.stringify(hostile));
    await page.getByRole("button", { name: "Make the tenant" }).click();
    await page.getByRole("heading", { name: hostile.image }).waitFor();
    const made = await t.api("GET", "/v1/tenants/browser-made");
    assert.deepEqual([made.name, made.metadata], [hostile.image, hostile]);
    await page.getByRole("link", { name: "Change" }).click();
    assert.equal(await page.getByLabel("Name").inputValue(), hostile.image);
    await page.getByLabel("Name").fill(hostile.script);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: hostile.script }).waitFor();
    await t.audited(made.id, "tenant.updated");
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByText(`Delete ${hostile.script}?`).waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.waitForURL("**/console/tenants");
    await t.audited(made.id, "tenant.deleted");
  });

  await check("a form that is wrong comes back with what was written", async (t) => {
    const page = await t.as("admin");
    page.allow.add(422).add(409);
    await page.open("/console/tenants/new");
    await page.getByLabel("Name").fill("Somebody");
    await page.getByLabel("Metadata").fill("</textarea><script>window.__pwned='form'</script>");
    await page.getByRole("button", { name: "Make the tenant" }).click();
    await page.locator(".field-fault").first().waitFor();
    assert.equal(await page.getByLabel("Name").inputValue(), "Somebody");
    assert.equal(await page.getByLabel("Metadata").inputValue(), "</textarea><script>window.__pwned='form'</script>");
    assert.equal(await page.getByLabel("Metadata").getAttribute("aria-invalid"), "true");
    await page.getByLabel("Metadata").fill("");
    await page.getByLabel("uid").fill("many");
    await page.getByRole("button", { name: "Make the tenant" }).click();
    await page.locator(".field-fault, .notice-bad").first().waitFor();
    assert.equal(await page.getByLabel("uid").inputValue(), "many");
  });

  await check("support opens a tenant's portal, a viewer does not", async (t) => {
    const page = await t.as("support");
    await page.open(`/console/tenants/${stage.tenants.script}`);
    await page.getByLabel("It may look and change nothing").check();
    await page.getByRole("button", { name: "Open the portal" }).click();
    const link = await page.locator("#portal-url").innerText();
    const visitor = await t.as("");
    await visitor.open(link.slice(new URL(link).origin.length));
    await visitor.waitForURL("**/portal/");
    await visitor.getByText("read only").waitFor();
    await t.audited(stage.tenants.script, "portal.link_created");
    const viewer = await t.as("viewer");
    await viewer.open(`/console/tenants/${stage.tenants.script}`);
    for (const name of ["Open the portal", "Delete"]) assert.equal(await viewer.getByRole("button", { name }).count(), 0);
    await viewer.open(`/console/tenants/${stage.tenants.script}/edit`, 403);
  });
};
