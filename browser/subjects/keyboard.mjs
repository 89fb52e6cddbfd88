// All that can be done with keys alone.
import assert from "node:assert/strict";

const row = (page, n) => page.locator("tbody tr[data-row]").nth(n);

export default async (check, stage) => {
  await check("/ j k x o move through the list", async (t) => {
    const page = await t.as("support");
    await page.open("/console/deliveries?tenant=many");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.name), "q");
    await page.keyboard.type("jk?"); // are letters here
    assert.equal(await page.getByLabel("Search ids and payloads").inputValue(), "jk?");
    await page.keyboard.press("Tab");
    await page.evaluate(() => document.activeElement.blur());
    for (const key of ["j", "j", "j", "k"]) await page.keyboard.press(key);
    assert.match(await row(page, 1).getAttribute("class"), /\bat\b/);
    await page.keyboard.press("x");
    assert.ok(await row(page, 1).getByRole("checkbox").isChecked());
    assert.equal(await page.locator("[data-chosen]").innerText(), "1");
    const id = await row(page, 1).locator("th code").innerText();
    await page.keyboard.press("o");
    await page.waitForURL(`**/console/deliveries/${id}`);
  });

  await check("? helps, Escape closes", async (t) => {
    const page = await t.as("viewer");
    await page.open("/console/deliveries");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
  });

  await check("r retries the delivery of the page", async (t) => {
    const page = await t.as("support");
    const { id } = await t.deliveryOf("rejecting");
    await page.open(`/console/deliveries/${id}`);
    await page.keyboard.press("r");
    await page.getByText("It is due at once").waitFor();
  });

  await check("Tab skips to the content, and shows where it is", async (t) => {
    const page = await t.as("viewer");
    await page.open("/console/deliveries");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  });
};
