// Signing in and out.
import assert from "node:assert/strict";

export default async (check, stage) => {
  await check("a good key leads to the page that was asked for", async (t) => {
    const page = await t.as("");
    await page.open("/console/deliveries?state=failed");
    assert.match(page.url(), /\/console\/signin\?to=/);
    await page.getByLabel("API key").fill(stage.keys.support);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL("**/console/deliveries?state=failed");
    const cookie = (await page.context().cookies()).find((c) => c.name === "__Host-postrider_console");
    assert.deepEqual({ ...cookie, value: "", expires: 0 }, {
      name: "__Host-postrider_console", value: "", domain: "127.0.0.1", path: "/", expires: 0, httpOnly: true, secure: true, sameSite: "Lax",
    });
  });

  await check("a bad key is refused and not sent back", async (t) => {
    const page = await t.as("");
    page.allow.add(401);
    await page.open("/console/signin");
    await page.getByLabel("API key").fill("<script>window.__pwned='key'</script>");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("this is no key").waitFor();
    assert.equal(await page.getByLabel("API key").inputValue(), "");
    assert.equal(await page.getByLabel("API key").getAttribute("aria-invalid"), "true");
  });

  await check("a way back that leads elsewhere leads to the first page", async (t) => {
    for (const to of ["https://evil.example/", "//evil.example/console/", "javascript:window.__pwned='to'", "/console/\\evil.example", "/console/signout"]) {
      const page = await t.as("");
      await page.open(`/console/signin?to=${encodeURIComponent(to)}`);
      await page.getByLabel("API key").fill(stage.keys.viewer);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.waitForURL(`${stage.base}/console/`);
    }
  });

  await check("signing out ends the session", async (t) => {
    const page = await t.as("");
    await page.open("/console/signin");
    await page.getByLabel("API key").fill(stage.keys.viewer);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL("**/console/");
    const kept = await page.context().cookies();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("You are signed out.").waitFor();
    await page.context().addCookies(kept); // somebody has kept the cookie
    await page.open("/console/deliveries");
    assert.match(page.url(), /\/console\/signin/);
  });

  await check("the name of the key is shown as it is", async (t) => {
    const page = await t.as("viewer");
    await page.open("/console/");
    await page.getByText("viewer<script>window.__pwned='name of a key'</script>").waitFor();
  });

  await check("a form on a page of another origin does nothing", async (t) => {
    const { id } = await t.deliveryOf("markup");
    const page = await t.as("support");
    page.allow.add(403).add(stage.foreign);
    await page.goto(`${stage.foreign}/forge?action=${encodeURIComponent(`${stage.base}/console/deliveries/${id}/retry`)}`);
    await page.getByRole("button").click();
    await page.waitForURL(`${stage.base}/**`);
    assert.ok(page.url().startsWith(stage.base));
    assert.equal((await t.deliveryOf("markup")).state, "failed");
  });

  await check("no other origin may frame a page", async (t) => {
    const page = await t.as("support");
    for (const origin of [stage.control, stage.foreign]) {
      page.allow.add(origin);
      await page.goto(`${origin}/frame?src=${encodeURIComponent(`${stage.base}/console/deliveries`)}`);
      await t.eventually("a refusal", () => t.seen.some((s) => s.includes("frame-ancestors 'none'")));
      assert.equal(await page.frameLocator("iframe").getByRole("heading").count(), 0);
      t.seen.length = 0; // what the browser says of that
    }
  });
};
