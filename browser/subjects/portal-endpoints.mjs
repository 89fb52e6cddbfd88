// What an organizer does with an endpoint in the portal.
import assert from "node:assert/strict";

export default async (check, stage) => {
  const hostile = stage.hostile;
  const newest = async (t) => (await t.api("GET", `/v1/tenants/${stage.tenants.image}/endpoints?limit=1`)).data[0];

  await check("an endpoint is added, with what is wrong beside its field before", async (t) => {
    const page = await t.enter("image");
    await page.getByRole("link", { name: "Add an endpoint" }).first().click();
    await page.getByLabel("URL").fill("ftp://hooks.example/");
    await page.getByLabel("Description").focus();
    await page.locator("#url-says .field-fault").waitFor();
    await page.getByLabel("URL").fill("https://hooks.example/added");
    await page.getByLabel("Description").fill(hostile.script);
    await page.getByText("This can be used").waitFor();
    await page.getByLabel("Expression").fill("payload.total > 100");
    await page.getByLabel("Payload").fill('{"total":101}');
    await page.getByText("This would be sent.").waitFor();
    await page.getByLabel("Payload").fill('{"total":1}');
    await page.getByText("This would not be sent.").waitFor();
    await page.getByLabel("Expression").fill("payload.total >");
    await page.locator("#filter-result .field-fault").waitFor();
    await page.getByLabel("Expression").fill(`payload.name != '${hostile.script.replaceAll("'", "")}'`);
    await page.getByRole("button", { name: "Add the endpoint" }).click();
    const secret = await page.getByLabel("The secret").inputValue();
    const made = await newest(t);
    assert.deepEqual([made.url, made.description], ["https://hooks.example/added", hostile.script]);
    assert.equal((await t.api("GET", `/v1/tenants/${stage.tenants.image}/endpoints/${made.id}/secret`)).secret, secret);
  });

  await check("without JavaScript an endpoint is added as well", async (t) => {
    const page = await t.enter("image", {}, { javaScriptEnabled: false });
    page.allow.add(422);
    await page.open("/portal/endpoints/new");
    await page.getByLabel("URL").fill("https://127.0.0.1.nip.example:1/x");
    await page.getByLabel("Expression").fill("payload.total > 100");
    await page.getByLabel("Payload").fill('{"total":101}');
    await page.getByRole("button", { name: "Try the filter" }).click();
    await page.getByText("This would be sent.").waitFor();
    await page.getByLabel("URL").fill("https://user@hooks.example/");
    await page.getByRole("button", { name: "Add the endpoint" }).click();
    await page.locator("#url-says .field-fault").waitFor();
    await page.getByLabel("URL").fill("https://hooks.example/plain");
    await page.getByRole("button", { name: "Add the endpoint" }).click();
    await page.getByLabel("The secret").waitFor();
    assert.equal((await newest(t)).url, "https://hooks.example/plain");
  });

  await check("a secret is revealed and rotated, and that is noted", async (t) => {
    const made = await t.api("POST", `/v1/tenants/${stage.tenants.image}/endpoints`, { url: "https://hooks.example/rotated" });
    const page = await t.enter("image");
    await page.open(`/portal/endpoints/${made.id}/signing`);
    await page.getByRole("button", { name: "Reveal the secret" }).click();
    assert.equal(await page.getByLabel("The secret").inputValue(), made.signature.secret);
    await t.audited(made.id, "endpoint.secret_revealed");
    await page.getByRole("button", { name: "Rotate" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.getByText("There is a new secret.").waitFor();
    assert.notEqual(await page.getByLabel("The secret").inputValue(), made.signature.secret);
    assert.equal(await page.getByLabel("The one before").inputValue(), made.signature.secret);
    await t.audited(made.id, "endpoint.secret_rotated");
  });

  await check("an endpoint is paused, enabled and deleted", async (t) => {
    const made = await t.api("POST", `/v1/tenants/${stage.tenants.image}/endpoints`, { url: "https://hooks.example/deleted" });
    const page = await t.enter("image");
    await page.open(`/portal/endpoints/${made.id}`);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText("It is paused.").waitFor();
    await page.getByRole("button", { name: "Enable" }).click();
    await page.getByText("It is enabled").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.getByText("The endpoint is deleted.").waitFor();
    await t.audited(made.id, "endpoint.deleted");
  });

  await check("a test event is sent, and its delivery sent again", async (t) => {
    const e = stage.endpoints.calm;
    const page = await t.enter("calm");
    await page.open(`/portal/endpoints/${e.ID}/test`);
    await page.getByLabel("Event type").fill("a.test");
    await page.getByLabel("Payload").fill(JSON.stringify(hostile));
    await page.getByRole("button", { name: "Send" }).click();
    await page.waitForURL("**/portal/deliveries/dlv_*");
    const id = new URL(page.url()).pathname.split("/").pop();
    await t.eventually("its success", async () => (await t.api("GET", `/v1/deliveries/${id}`)).state === "succeeded");
    await page.open(`/portal/deliveries/${id}`);
    await page.getByRole("button", { name: "Send again" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Yes" }).click();
    await page.getByText("It is sent again at once").waitFor();
    await t.eventually("a second attempt", async () => (await t.api("GET", `/v1/deliveries/${id}`)).attempts === 2);
  });
};
