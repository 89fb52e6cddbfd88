// The list of deliveries: its filters, its pages, its address.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

// ids gives those of the rows that are shown.
const ids = (page) => page.locator("tbody tr[data-row] th code").allInnerTexts();

export default async (check, stage) => {
  await check("a filter is in the address, and can be shared", async (t) => {
    const page = await t.as("support");
    await page.open("/console/deliveries");
    await page.getByLabel("State").selectOption("failed");
    await page.getByLabel("Outcome").selectOption("unauthorized");
    await page.getByLabel("Tenant").fill(stage.tenants.script);
    await page.getByRole("button", { name: "Show" }).click();
    await page.waitForURL(/state=failed/);
    const found = await ids(page);
    assert.deepEqual(found, [(await t.deliveryOf("login")).id]);
    const other = await t.as("viewer");
    await other.open(page.url());
    assert.deepEqual(await ids(other), found);
    assert.equal(await other.getByLabel("State").inputValue(), "failed");
    assert.equal(await other.getByLabel("Outcome").inputValue(), "unauthorized");
  });

  await check("each usual view shows its state alone", async (t) => {
    const page = await t.as("support");
    await page.open("/console/deliveries");
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Failed" }).click();
    await page.waitForURL(/state=failed/);
    const states = new Set(await page.locator("tbody tr[data-row] td:nth-of-type(2) .state").allInnerTexts());
    assert.deepEqual([...states].map((s) => s.trim()), ["failed"]);
    assert.equal(await page.locator(".views a[aria-current=page]").innerText(), "Failed");
  });

  await check("a search finds by id", async (t) => {
    const page = await t.as("viewer");
    await page.open("/console/deliveries");
    await page.getByLabel("Search ids and payloads").fill(stage.events.gone);
    await page.getByLabel("Search ids and payloads").press("Enter");
    await page.waitForURL(/q=evt_/);
    assert.deepEqual(await ids(page), [(await t.deliveryOf("gone")).id]);
  });

  await check("pages show each delivery once, and lead back", async (t) => {
    const page = await t.as("viewer");
    await page.open(`/console/deliveries?tenant=many`);
    const all = [];
    for (;;) {
      all.push(...await ids(page));
      const older = page.getByRole("link", { name: "Older" });
      if (!await older.count()) break;
      const next = new URL(await older.getAttribute("href"), stage.base);
      await Promise.all([page.waitForURL(next.href), older.click()]);
    }
    assert.deepEqual([all.length, new Set(all).size], [120, 120]);
    await page.getByRole("link", { name: "Newest" }).click();
    await page.waitForURL((u) => !u.searchParams.has("cursor"));
    assert.deepEqual(await ids(page), all.slice(0, 50));
    assert.match(page.url(), /tenant=many/);
  });

  await check("the file has what the list has, and nothing that a spreadsheet runs", async (t) => {
    const page = await t.as("viewer");
    for (const name of ["equals", "plus", "minus", "at", "script", "many"]) {
      const filter = `tenant=${stage.tenants[name]}`;
      await page.open(`/console/deliveries?${filter}`);
      const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "CSV" }).click()]);
      assert.match(file.suggestedFilename(), /^deliveries-\d{8}T\d{6}Z\.csv$/);
      const text = await readFile(await file.path(), "utf8");
      const cells = text.trim().split(/\r?\n/).flatMap((line) => line.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/));
      for (const cell of cells) assert.doesNotMatch(cell.replace(/^"/, ""), /^[=+\-@\t\r]/);
      const rows = text.trim().split(/\r?\n/).length - 1;
      assert.equal(rows, name === "many" ? 120 : (await page.locator("tbody tr[data-row]").count()));
      assert.ok(rows > 0, name);
      assert.ok(text.includes(name === "equals" ? "'=cmd|" : ""));
    }
  });

  await check("an id leads to its page", async (t) => {
    const page = await t.as("viewer");
    const { id } = await t.deliveryOf("gone");
    await page.open("/console/");
    await page.getByRole("searchbox", { name: "Go to an id" }).fill(` ${id} `);
    await page.getByRole("searchbox", { name: "Go to an id" }).press("Enter");
    await page.waitForURL(`**/console/deliveries/${id}`);
    await page.getByRole("searchbox", { name: "Go to an id" }).fill("<script>window.__pwned='go to'</script>");
    await page.getByRole("searchbox", { name: "Go to an id" }).press("Enter");
    await page.waitForURL(/\/console\/deliveries\?q=/);
  });

  await check("queries of endpoints' URLs are not shown", async (t) => {
    const page = await t.as("admin");
    await page.open("/console/deliveries");
    assert.ok(!(await page.content()).includes("canary-of-a-query"));
    await page.open(`/console/deliveries/${(await t.deliveryOf("markup")).id}`);
    assert.ok(!(await page.content()).includes("canary-of-a-query"));
  });
};
