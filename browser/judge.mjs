// Judges the page that is open: what axe finds, and what it does not look for.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

// accessible insists that axe finds nothing. It is put into the page through the debugger, where no policy stops it.
export const accessible = async (page) => {
  const session = await page.context().newCDPSession(page);
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
    expression: `${axe};axe.run(document, { runOnly: ${JSON.stringify(tags)}, resultTypes: ["violations"] }).then((r) => JSON.stringify(r.violations.map(
      (v) => ({ rule: v.id, help: v.help, nodes: v.nodes.slice(0, 5).map((n) => n.html.slice(0, 200) + " " + (n.any[0]?.message || "")) }))))`,
    awaitPromise: true,
  });
  assert.ok(!exceptionDetails, JSON.stringify(exceptionDetails));
  assert.deepEqual(JSON.parse(result.value), [], `axe on ${page.url()}`);
};

// fits insists that the page has to be scrolled one way only, and names what sticks out.
export const fits = async (page) => {
  const wide = await page.evaluate(() => {
    if (document.documentElement.scrollWidth <= innerWidth) return null;
    const out = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".table-scroll *, pre *"));
    return [document.documentElement.scrollWidth, ...out.slice(0, 5).map((e) => e.outerHTML.slice(0, 200))];
  });
  assert.equal(wide, null, `the width of ${page.url()}`);
};

// plain insists that what came from outside is text alone: no link that runs something, no handler, and no letters that turn
// the direction of what stands beside them.
export const plain = async (page) => {
  const bad = await page.evaluate(() => {
    const found = [];
    for (const e of document.querySelectorAll("*")) {
      for (const a of e.attributes) {
        if (/^on/i.test(a.name) || (["href", "src", "action", "formaction", "xlink:href"].includes(a.name) && /^\s*(javascript|data|vbscript):/i.test(a.value))) {
          found.push(e.outerHTML.slice(0, 200));
        }
      }
    }
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let t = texts.nextNode(); t; t = texts.nextNode()) {
      if (!/[\u202a-\u202e\u2066-\u2069]/.test(t.data)) continue;
      let e = t.parentElement;
      const isolated = (x) => /isolate|plaintext/.test(getComputedStyle(x).unicodeBidi) && getComputedStyle(x).display.startsWith("inline");
      while (getComputedStyle(e).display.startsWith("inline") && !isolated(e)) e = e.parentElement;
      if (!isolated(e) && e.textContent.trim() !== t.data.trim()) found.push(`turns the text beside it: ${e.outerHTML.slice(0, 200)}`);
    }
    return found;
  });
  assert.deepEqual(bad, [], page.url());
  assert.ok(!/\b49\b.*\$49/.test(await page.locator("body").innerText()), "a template was run");
};
