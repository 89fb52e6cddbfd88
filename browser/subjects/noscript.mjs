// What has to work without JavaScript: all but live updates.
import assert from "node:assert/strict";

export default async (check, stage) => {
  await check("sign in, filter, page on, retry", async (t) => {
    await t.answer("mend-noscript", 401);
    const event = await t.send("mend-noscript", "order.paid", { retry: "without a script" });
    const delivery = await t.eventually("a failure", async () => (await t.api("GET", `/v1/deliveries?q=${event}&state=failed`)).data[0]);
    const page = await t.as("", { javaScriptEnabled: false });
    await page.open("/console/");
    await page.getByLabel("API key").fill(stage.keys.support);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL("**/console/");
    await page.getByRole("link", { name: "Deliveries", exact: true }).click();
    await page.getByLabel("Tenant").fill("many");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByRole("link", { name: "Older" }).click();
    await page.waitForURL(/cursor=/);
    assert.equal(await page.locator("tbody tr[data-row]").count(), 50);
    await page.open(`/console/deliveries/${delivery.id}`);
    await t.answer("mend-noscript", 204);
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByText("It is due at once").waitFor();
    await t.eventually("a success", async () => (await t.api("GET", `/v1/deliveries/${delivery.id}`)).state === "succeeded");
  });
};
