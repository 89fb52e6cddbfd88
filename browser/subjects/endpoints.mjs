// Endpoints: their health, and what support does to one.
import assert from "node:assert/strict";

export default async (check, stage) => {
  const open = async (t, name, role = "support") => {
    const page = await t.as(role);
    await page.open(`/console/endpoints/${stage.endpoints[name].ID}`);
    return page;
  };
  const endpoint = (t, name) => t.api("GET", `/v1/tenants/${stage.endpoints[name].Tenant}/endpoints/${stage.endpoints[name].ID}`);

  await check("pause holds what comes, enable sends it", async (t) => {
    const page = await open(t, "act-pause");
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.getByText("The endpoint is switched off.").waitFor();
    assert.equal((await endpoint(t, "act-pause")).status, "disabled");
    await t.send("act-pause", "order.paid", { held: true });
    await page.reload();
    await page.getByRole("region", { name: "Deliveries" }).getByText("held").first().waitFor();
    assert.equal((await t.received("act-pause")).length, 0);
    await page.getByRole("button", { name: "Enable" }).click();
    await page.getByText("The endpoint is enabled.").waitFor();
    await t.eventually("the delivery", async () => (await t.received("act-pause")).length === 1);
    await t.audited(stage.endpoints["act-pause"].ID, "endpoint.status_changed");
  });

  await check("a dead one is revived", async (t) => {
    const page = await open(t, "act-dead");
    await t.answer("act-dead", 410);
    await t.send("act-dead", "order.paid", {});
    await t.eventually("its death", async () => (await endpoint(t, "act-dead")).status === "dead");
    await page.reload();
    await page.getByRole("button", { name: "Revive" }).click();
    await page.getByText("The endpoint is enabled.").waitFor();
    assert.equal((await endpoint(t, "act-dead")).status, "enabled");
  });

  await check("a test event reaches it alone, as it was written", async (t) => {
    const page = await open(t, "act-test");
    const payload = JSON.stringify({ hostile: stage.hostile }, null, 1);
    await page.getByLabel("Payload").fill(payload);
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.waitForURL("**/console/events/evt_*");
    const got = await t.eventually("the test event", async () => (await t.received("act-test"))[0]);
    assert.deepEqual([got.Verified, got.Body.replaceAll("\r\n", "\n")], ["", payload]);
    await t.audited(stage.endpoints["act-test"].ID, "endpoint.tested");
  });

  await check("the secret is replaced, and both sign", async (t) => {
    const page = await open(t, "act-rotate");
    await page.getByRole("button", { name: "Replace" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.getByRole("status").getByText(/secret/i).waitFor();
    const { secret } = await t.api("GET", `/v1/tenants/${stage.endpoints["act-rotate"].Tenant}/endpoints/${stage.endpoints["act-rotate"].ID}/secret`);
    assert.notEqual(secret, stage.endpoints["act-rotate"].Secret);
    assert.ok(!(await page.content()).includes(secret));
    await t.send("act-rotate", "order.paid", {});
    const got = await t.eventually("a delivery", async () => (await t.received("act-rotate"))[0]);
    assert.equal(got.Verified, ""); // the old secret is the one that the stage knows
    await t.audited(stage.endpoints["act-rotate"].ID, "endpoint.secret_rotated");
  });

  await check("a window is replayed after a look at how many", async (t) => {
    for (let i = 0; i < 3; i++) await t.send("act-replay", "order.paid", { i });
    await t.eventually("the deliveries", async () => (await t.received("act-replay")).length === 3);
    const page = await open(t, "act-replay");
    await page.getByRole("link", { name: "Replay…" }).click();
    const since = new Date(Date.now() - 3600_000).toISOString().slice(0, 16);
    await page.getByLabel("From (UTC)").fill(since);
    const what = page.getByLabel("What");
    const all = await what.locator("option").evaluateAll((options) => options.map((o) => [o.value, o.textContent]));
    await what.selectOption(all.find(([, label]) => /all|whatever|every/i.test(label))?.[0] ?? all.at(-1)[0]);
    await page.getByRole("button", { name: "Count them" }).click();
    await page.getByText("3 events").waitFor();
    assert.equal((await t.received("act-replay")).length, 3); // so far nothing was done
    await page.getByRole("button", { name: "Replay" }).click();
    await page.waitForURL("**/console/jobs/job_*");
    await t.eventually("the replay", async () => (await t.received("act-replay")).length === 6);
    await page.getByText("succeeded").first().waitFor(); // the page looks by itself
    for (const got of await t.received("act-replay")) assert.equal(got.Verified, "");
  });

  await check("a search finds by a part of the URL", async (t) => {
    const page = await t.as("viewer");
    await page.open("/console/endpoints");
    const host = new URL(stage.endpoints.calm.URL).host;
    await page.getByLabel("Part of the URL").fill(host);
    await page.getByRole("button", { name: "Show" }).click();
    await page.waitForURL(/q=/);
    assert.deepEqual(await page.locator("tbody tr[data-row] th code").allInnerTexts(), [stage.endpoints.calm.ID]);
  });
};
