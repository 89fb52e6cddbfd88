// Acting on many deliveries: the number before, the progress after.
import assert from "node:assert/strict";

export default async (check, stage) => {
  await check("those that were chosen are retried, then all that match", async (t) => {
    await t.answer("bulk", 401);
    for (let i = 0; i < 8; i++) await t.send("bulk", "order.paid", { i });
    const failed = async (n) => (await t.api("GET", `/v1/deliveries?tenant=bulk&state=failed`)).data.length === n;
    await t.eventually("the failures", () => failed(8));
    await t.answer("bulk", 204);
    const page = await t.as("support");
    await page.open("/console/deliveries?tenant=bulk&state=failed");
    const retry = page.getByRole("button", { name: "Retry chosen" });
    assert.ok(await retry.isDisabled());
    for (const n of [0, 2, 5]) await page.locator("tbody input[name=id]").nth(n).check();
    assert.equal(await page.locator("[data-chosen]").innerText(), "3");
    await retry.click();
    await page.getByText("3 deliveries").waitFor();
    assert.ok(await failed(8)); // so far nothing was done
    await page.getByRole("button", { name: "Retry 3" }).click();
    await page.waitForURL("**/console/jobs/job_*");
    await page.getByText("succeeded").first().waitFor(); // the page looks by itself
    await t.eventually("the successes", () => failed(5));
    const id = page.url().split("/").at(-1);
    await t.audited(id, "job.created");

    await page.open("/console/deliveries?tenant=bulk&state=failed");
    await page.getByRole("link", { name: "Retry all that match" }).click();
    await page.getByText("5 deliveries").waitFor();
    await page.getByRole("button", { name: "Retry 5" }).click();
    await page.waitForURL("**/console/jobs/job_*");
    await t.eventually("the successes", () => failed(0));
    await page.open("/console/jobs");
    await page.locator(`a[href$="${id}"]`).waitFor();
  });

  await check("all of a page are chosen at once, and cancelled", async (t) => {
    for (let i = 0; i < 4; i++) await t.send("stuck", "order.paid", { i });
    const pending = async (n) => (await t.api("GET", `/v1/deliveries?tenant=stuck&state=pending`)).data.length === n;
    await t.eventually("the first tries", () => pending(4));
    const page = await t.as("support");
    await page.open("/console/deliveries?tenant=stuck");
    await page.getByLabel("Choose all of this page").check();
    assert.equal(await page.locator("[data-chosen]").innerText(), "4");
    await page.getByRole("button", { name: "Cancel chosen" }).click();
    await page.getByRole("button", { name: "Cancel 4" }).click();
    await page.waitForURL("**/console/jobs/job_*");
    await t.eventually("the cancellations", () => pending(0));
  });

  await check("without a script too", async (t) => {
    for (let i = 0; i < 2; i++) await t.send("stuck-noscript", "order.paid", { i });
    const pending = async (n) => (await t.api("GET", `/v1/deliveries?endpoint=${stage.endpoints["stuck-noscript"].ID}&state=pending`)).data.length === n;
    await t.eventually("the first tries", () => pending(2));
    const page = await t.as("support", { javaScriptEnabled: false });
    await page.open(`/console/deliveries?endpoint=${stage.endpoints["stuck-noscript"].ID}`);
    await page.locator("tbody input[name=id]").first().check();
    await page.getByRole("button", { name: "Cancel chosen" }).click();
    await page.getByRole("button", { name: "Cancel 1" }).click();
    await page.waitForURL("**/console/jobs/job_*");
    await t.eventually("the cancellation", () => pending(1));
  });

  await check("a viewer is offered none of it", async (t) => {
    const page = await t.as("viewer");
    await page.open("/console/deliveries/bulk?act=retry", 403);
  });
};
