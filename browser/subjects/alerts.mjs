// Alerts: what is wrong, and who looks after it.
import assert from "node:assert/strict";

export default async (check, stage) => {
  const alertOf = async (t, name) => {
    const { data } = await t.api("GET", "/v1/alerts?limit=250");
    return data.find((a) => a.endpoint_id === stage.endpoints[name].ID);
  };

  await check("an alert is acknowledged, then resolved, in the name of who did it", async (t) => {
    const { id } = await alertOf(t, "login");
    const page = await t.as("support");
    await page.open("/console/alerts");
    await page.locator(`a[href$="${id}"]`).click();
    await page.getByRole("heading", { name: /Credentials refused/ }).waitFor();
    await page.getByRole("button", { name: "Acknowledge" }).click();
    await page.getByText("You look after it now.").waitFor();
    assert.equal((await t.api("GET", `/v1/alerts/${id}`)).state, "acknowledged");
    await page.open("/console/alerts?state=acknowledged");
    await page.locator(`a[href$="${id}"]`).click();
    await page.getByText("support<script>window.__pwned='name of a key'</script>").first().waitFor();
    await page.getByRole("button", { name: "Resolve" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.getByText("It is resolved.").waitFor();
    assert.equal((await t.api("GET", `/v1/alerts/${id}`)).state, "resolved");
    const row = await t.audited(id, "alert.resolved");
    assert.match(JSON.stringify(row), /support<script>/);
  });

  await check("an alert leads to the deliveries behind it", async (t) => {
    const { id } = await alertOf(t, "rejecting");
    const page = await t.as("viewer");
    await page.open(`/console/alerts/${id}`);
    assert.equal(await page.getByRole("button", { name: "Acknowledge" }).count(), 0);
    await page.getByRole("link", { name: "Show in the list of deliveries" }).click();
    await page.waitForURL(/\/console\/deliveries\?/);
    await page.locator(`a[href$="${(await t.deliveryOf("rejecting")).id}"]`).waitFor();
  });

  await check("the number of open ones is beside the entry", async (t) => {
    const page = await t.as("viewer");
    await page.open("/console/");
    assert.ok(Number(await page.locator("nav.nav .badge").evaluate((b) => b.firstChild.data)) > 3);
  });
};
