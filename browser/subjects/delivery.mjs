// One delivery: its attempts, its payload, and what can be done about it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

export default async (check, stage) => {
  await check("what a receiver answered is shown as text", async (t) => {
    const page = await t.as("support");
    await page.open(`/console/deliveries/${(await t.deliveryOf("markup")).id}`);
    for (const text of ["<script>window.__pwned='header value'</script>", "window.__pwned='answer body'", "=cmd|' /C calc'!A0"]) {
      await page.getByText(text).first().waitFor();
    }
    assert.equal(await page.locator("details.attempt").count(), 6);
  });

  for (const name of Object.keys(stage.endpoints).filter((n) => n.startsWith("signed-"))) {
    await check(`the command for curl works where it is ${name}`, async (t) => {
      const page = await t.as("support");
      await page.open(`/console/deliveries/${(await t.deliveryOf(name)).id}?curl`);
      const command = await page.locator("#curl-text").innerText();
      const { stdout } = await run("sh", ["-c", command]);
      assert.match(stdout, /^HTTP\/1.1 204 /);
      const got = await t.received(name);
      assert.deepEqual(got.map((g) => [g.Verified, g.Body]), [["", got[0].Body], ["", got[0].Body]]);
    });
  }

  await check("the command for curl is copied as it is shown", async (t) => {
    const page = await t.as("support", { permissions: ["clipboard-read", "clipboard-write"] });
    await page.open(`/console/deliveries/${(await t.deliveryOf("calm")).id}`);
    await page.getByRole("link", { name: "Copy as curl" }).click();
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByText("Copied").waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(command, await page.locator("#curl-text").innerText());
  });

  await check("a viewer does not get the command", async (t) => {
    const page = await t.as("viewer");
    await page.open(`/console/deliveries/${(await t.deliveryOf("calm")).id}?curl`, 403);
  });

  await check("retry sends it again", async (t) => {
    await t.answer("mend", 401);
    const event = await t.send("mend", "order.paid", { retry: "one" });
    const delivery = await t.eventually("a failure", async () => (await t.api("GET", `/v1/deliveries?q=${event}&state=failed`)).data[0]);
    await t.answer("mend", 204);
    const page = await t.as("support");
    await page.open(`/console/deliveries/${delivery.id}`);
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByText("It is due at once").waitFor();
    await t.eventually("a success", async () => (await t.api("GET", `/v1/deliveries/${delivery.id}`)).state === "succeeded");
    await page.reload();
    await page.getByText("succeeded").first().waitFor();
  });

  await check("cancel asks, and cancels", async (t) => {
    const event = await t.send("refused", "order.paid", { cancel: "one" });
    const delivery = await t.eventually("a first failure", async () => (await t.api("GET", `/v1/deliveries?q=${event}`)).data.find((d) => d.attempts));
    const page = await t.as("support");
    await page.open(`/console/deliveries/${delivery.id}`);
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    assert.equal((await t.api("GET", `/v1/deliveries/${delivery.id}`)).state, "pending");
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.getByText("It is cancelled.").waitFor();
    assert.equal((await t.api("GET", `/v1/deliveries/${delivery.id}`)).state, "cancelled");
  });

  await check("somebody else's id, or none, is not found", async (t) => {
    const page = await t.as("viewer");
    for (const id of ["dlv_00000000000000000000000000", "evt_1", "%3Cscript%3E"]) await page.open(`/console/deliveries/${id}`, 404);
  });
};
