// API keys: shown once, revoked at once.
import assert from "node:assert/strict";

export default async (check, stage) => {
  await check("a key is shown once, works, and does not after it is revoked", async (t) => {
    const page = await t.as("admin", { permissions: ["clipboard-read", "clipboard-write"] });
    await page.open("/console/api-keys");
    await page.getByRole("link", { name: "New API key" }).click();
    await page.getByLabel("Name").fill(stage.hostile.quote);
    await page.getByLabel("deliveries:read").check();
    await page.getByRole("button", { name: "Make the key" }).click();
    const key = await page.locator("#key-text").innerText();
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByText("Copied").waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), key);
    const ask = async () => (await fetch(`${stage.base}/v1/deliveries?limit=1`, { headers: { authorization: `Bearer ${key}` } })).status;
    assert.equal(await ask(), 200);
    await page.getByRole("link", { name: "I have it" }).click();
    assert.ok(!(await page.content()).includes(key));
    await page.getByRole("link", { name: stage.hostile.quote }).click();
    await page.getByRole("heading", { name: stage.hostile.quote }).waitFor();
    assert.ok(!(await page.content()).includes(key));
    const id = page.url().split("/").at(-1);
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.waitForURL("**/console/api-keys");
    await t.eventually("the end of the key", async () => (await ask()) === 401);
    for (const action of ["api_key.created", "api_key.revoked"]) await t.audited(id, action);
  });

  await check("a key without a scope is refused, and the form says so", async (t) => {
    const page = await t.as("admin");
    page.allow.add(422);
    await page.open("/console/api-keys/new");
    await page.getByLabel("Name").fill("nothing");
    await page.getByRole("button", { name: "Make the key" }).click();
    await page.locator("#e-scopes").waitFor();
    assert.equal(await page.getByLabel("Name").inputValue(), "nothing");
  });

  await check("none but administrators see them", async (t) => {
    for (const role of ["viewer", "support"]) await (await t.as(role)).open("/console/api-keys", 403);
  });
};
