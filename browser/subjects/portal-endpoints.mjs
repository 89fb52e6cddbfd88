// What an organizer does with endpoints in the portal.
import assert from "node:assert/strict";

export default async (check, stage) => {
  const at = (name) => `/portal/endpoints/${stage.endpoints[name].ID}`;
  const yes = (page) => page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();

  await check("an endpoint is added, with its URL and filter judged while they are written", async (t) => {
    const page = await t.enter("portal");
    page.allow.add(422);
    await page.getByRole("link", { name: "Add an endpoint" }).first().click();
    const url = page.getByLabel("URL", { exact: true });
    for (const bad of ["http://169.254.169.254/", "https://user:word@example.com/"]) {
      await url.fill(bad);
      await url.press("Tab");
      await page.locator("#url-says .field-fault").waitFor();
      await url.fill("");
      await page.locator("#url-says .field-fault").waitFor();
    }
    await url.fill(stage.endpoints["portal-add"].URL + "?added");
    await url.press("Tab");
    await page.getByText("This can be used.").waitFor();
    await page.getByRole("textbox", { name: "Description" }).fill(stage.hostile.image);
    await page.getByRole("checkbox", { name: /hostile\.type/ }).check();
    await page.getByLabel("Expression").fill("payload.name == 'calm'");
    await page.getByLabel("Payload").fill(`{"name": "calm"}`);
    await page.getByText("This would be sent.").waitFor();
    await page.getByLabel("Payload").fill(`{"name": "${"<script>window.__pwned='sample'</script>"}"}`);
    await page.getByText("This would not be sent.").waitFor();
    await page.getByLabel("Expression").fill("<script>window.__pwned='expression'</script>");
    await page.locator("#filter-result .field-fault, #filter-result .warn").first().waitFor();
    await page.getByLabel("Expression").fill("payload.name == 'calm'");
    await page.getByRole("button", { name: "Add the endpoint" }).click();
    await page.getByText("The endpoint is added").first().waitFor();
    const secret = await page.getByLabel("The secret", { exact: true }).inputValue();
    const { data } = await t.api("GET", `/v1/tenants/${stage.tenants.portal}/endpoints?limit=250`);
    const made = data.find((e) => e.url.endsWith("?added"));
    assert.deepEqual([made.description, made.event_types, made.filter], [stage.hostile.image, ["hostile.type"], "payload.name == 'calm'"]);
    assert.equal((await t.api("GET", `/v1/tenants/${stage.tenants.portal}/endpoints/${made.id}/secret`)).secret, secret);
    await t.audited(made.id, "endpoint.created");
    await page.open(`/portal/endpoints/${made.id}/settings`);
    assert.equal(await page.getByRole("textbox", { name: "Description" }).inputValue(), stage.hostile.image);
    await page.getByRole("textbox", { name: "Description" }).fill(stage.hostile.equals);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("It is saved.").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await yes(page);
    await page.getByText("The endpoint is deleted.").waitFor();
    await t.audited(made.id, "endpoint.deleted");
  });

  await check("an endpoint is added without a script, and a bad one is said to be so", async (t) => {
    const page = await t.enter("portal", {}, { javaScriptEnabled: false });
    page.allow.add(422);
    await page.open("/portal/endpoints/new");
    await page.getByLabel("URL", { exact: true }).fill("http://169.254.169.254/");
    await page.getByRole("textbox", { name: "Description" }).fill("kept");
    await page.getByRole("button", { name: "Add the endpoint" }).click();
    await page.locator("#url-says .field-fault").waitFor();
    assert.equal(await page.getByRole("textbox", { name: "Description" }).inputValue(), "kept");
    await page.getByLabel("URL", { exact: true }).fill(stage.endpoints["portal-add"].URL + "?plain");
    await page.getByRole("button", { name: "Add the endpoint" }).click();
    await page.getByText("The endpoint is added").first().waitFor();
    assert.match(await page.getByLabel("The secret", { exact: true }).inputValue(), /^whsec_/);
  });

  await check("the secret is revealed, rotated, and both sign", async (t) => {
    const e = stage.endpoints["portal-secret"];
    const page = await t.enter("portal");
    await page.open(`${at("portal-secret")}/signing`);
    assert.ok(!(await page.content()).includes(e.Secret));
    for (const language of ["Go", "Node", "Python", "PHP", "Ruby"]) assert.ok(await page.locator("summary", { hasText: language }).count(), language);
    await page.getByRole("button", { name: "Reveal the secret" }).click();
    assert.equal(await page.getByLabel("The secret", { exact: true }).inputValue(), e.Secret);
    await t.audited(e.ID, "endpoint.secret_revealed");
    await page.getByRole("button", { name: "Rotate" }).click();
    await yes(page);
    await page.getByLabel("The one before").waitFor();
    assert.equal(await page.getByLabel("The one before").inputValue(), e.Secret);
    const { secret } = await t.api("GET", `/v1/tenants/${e.Tenant}/endpoints/${e.ID}/secret`);
    assert.equal(await page.getByLabel("The secret", { exact: true }).inputValue(), secret);
    await t.send("portal-secret", "order.paid", {});
    assert.equal((await t.eventually("a delivery", async () => (await t.received("portal-secret"))[0])).Verified, "");
  });

  await check("a test event, its delivery, and sending that again", async (t) => {
    const page = await t.enter("portal");
    await page.open(`${at("portal-test")}/test`);
    await page.getByLabel("Event type").fill("hostile.type");
    await page.getByLabel("Payload").fill(JSON.stringify({ text: stage.hostile.script }));
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.waitForURL("**/portal/deliveries/dlv_*");
    await page.getByText("succeeded").first().waitFor(); // the page looks by itself
    await page.reload();
    await page.getByRole("button", { name: "Send again" }).click();
    await yes(page);
    await page.getByText("It is sent again at once").waitFor();
    const got = await t.eventually("both", async () => { const all = await t.received("portal-test"); return all.length === 2 && all; });
    assert.deepEqual(got.map((g) => [g.Verified, g.Body]), [["", got[0].Body], ["", got[0].Body]]);
  });

  await check("what was missed is replayed after a look at how many", async (t) => {
    const page = await t.enter("portal");
    await page.open(at("portal-replay"));
    await t.send("portal-replay", "order.paid", { missed: 1 });
    await t.eventually("a delivery", async () => (await t.received("portal-replay")).length === 1);
    await page.getByRole("link", { name: "Replay" }).click();
    await page.getByLabel("What").selectOption("succeeded");
    await page.getByRole("button", { name: "Count them" }).click();
    await page.getByText("1 event").waitFor();
    await page.getByRole("button", { name: "Replay" }).click();
    await page.waitForURL("**/portal/jobs/job_*");
    await t.eventually("the replay", async () => (await t.received("portal-replay")).length === 2);
  });

  await check("pause and enable", async (t) => {
    const page = await t.enter("portal");
    await page.open(at("portal-pause"));
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText("It is paused.").first().waitFor();
    await page.getByRole("button", { name: "Enable" }).click();
    await page.getByText("It is enabled").waitFor();
    await t.audited(stage.endpoints["portal-pause"].ID, "endpoint.status_changed");
  });

  await check("a link that reads only changes nothing, and shows no secret", async (t) => {
    const page = await t.enter("portal", { read_only: true });
    await page.getByText("read only").waitFor();
    assert.equal(await page.getByRole("link", { name: "Add an endpoint" }).count(), 0);
    await page.open(at("portal-pause"));
    assert.equal(await page.locator("main form[method=post]").count(), 0);
    await page.open(`${at("portal-pause")}/signing`);
    assert.equal(await page.locator("main form[method=post]").count(), 0);
    for (const path of ["/portal/endpoints/new", `${at("portal-pause")}/settings`, `${at("portal-pause")}/test`, `${at("portal-pause")}/replay`]) await page.open(path, 403);
    for (const act of ["delete", "rotate", "secret", "status", "test"]) {
      const answer = await page.request.post(`${at("portal-pause")}/${act}`, { form: { status: "disabled", overlap: "0s" }, headers: { origin: stage.base } });
      assert.equal(answer.status(), 403, act);
    }
  });

  await check("another tenant's things are not there", async (t) => {
    const page = await t.enter("portal");
    for (const path of [at("calm"), `${at("calm")}/signing`, `/portal/deliveries/${stage.deliveries.calm}`]) await page.open(path, 404);
    await page.open("/portal/deliveries");
    assert.ok(!(await page.content()).includes(stage.deliveries.calm));
  });
};
