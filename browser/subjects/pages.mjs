// Every page of the table, in light and dark and as narrow as a telephone: axe finds nothing, it fits, what came from outside
// is text. (What the watch finds fails each check anyway.)
import assert from "node:assert/strict";
import { accessible, fits, plain } from "../judge.mjs";
import { pages } from "../pages.mjs";

const narrow = { colorScheme: "light", viewport: { width: 360, height: 740 } };
const looks = [{ colorScheme: "light" }, { colorScheme: "dark" }, narrow];

export default async (check) => {
  for (const { name, path, role, status, alike } of pages) {
    await check(name, async (t) => {
      const at = typeof path === "function" ? await path(t) : path;
      for (const look of alike ? [narrow] : looks) {
        const page = await t.kept(role, look);
        await page.open(at, status);
        await plain(page);
        await fits(page);
        await accessible(page);
        assert.match(await page.title(), /. · ./);
      }
    });
  }

  for (const role of ["viewer", "support", "admin"]) {
    await check(`the navigation of a ${role} leads to pages`, async (t) => {
      const page = await t.as(role);
      await page.open("/console/");
      const links = await page.locator("nav.nav a").evaluateAll((all) => all.map((a) => a.getAttribute("href")));
      assert.ok(links.length >= 2);
      for (const link of links) {
        await page.open(link);
        assert.equal(await page.locator("nav.nav a[aria-current=page]").getAttribute("href"), link);
      }
    });
  }
};
