// Takes the pictures of docs/screenshots from the server that the standard input tells of, each in light and dark.
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { launch } from "./chromium.mjs";

const stage = JSON.parse(readFileSync(0, "utf8"));
const folder = new URL("../docs/screenshots/", import.meta.url);
const most = 200_000; // bytes of a picture

const pictures = [
  ["console-overview", "/console/"],
  ["console-deliveries", "/console/deliveries?state=failed"],
  ["console-delivery", `/console/deliveries/${stage.delivery}`],
  ["console-endpoint", `/console/endpoints/${stage.endpoint3}`],
  ["console-alerts", "/console/alerts"],
  ["portal-endpoint", `/portal/endpoints/${stage.endpoint3}`],
  ["portal-signing", `/portal/endpoints/${stage.endpoint3}/signing`],
  ["portal-deliveries", "/portal/deliveries"],
];

mkdirSync(folder, { recursive: true });
const browser = await launch();
let done = 0;
try {
  for (const colorScheme of ["light", "dark"]) {
    const page = await (await browser.newContext({ baseURL: stage.base, viewport: { width: 1280, height: 800 }, colorScheme, reducedMotion: "reduce" })).newPage();
    await page.goto("/console/signin");
    await page.getByLabel("API key").fill(stage.keys.admin);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL("**/console/");
    const link = await fetch(`${stage.base}/v1/tenants/${stage.tenant3}/portal-sessions`, {
      method: "POST", headers: { authorization: `Bearer ${stage.keys.admin}`, "content-type": "application/json" }, body: "{}",
    });
    const { url } = await link.json();
    await page.goto(url.slice(new URL(url).origin.length));
    await page.waitForURL("**/portal/");
    for (const [name, path] of pictures) {
      const answer = await page.goto(path);
      await page.evaluate(() => document.fonts.ready);
      const file = new URL(`${name}-${colorScheme}.png`, folder);
      await page.screenshot({ path: file.pathname });
      const { size } = statSync(file);
      done++;
      console.log(JSON.stringify({ subject: "pictures", name: `${name}-${colorScheme}`, ok: answer.ok() && size < most, detail: `${path}: ${answer.status()}, ${size} bytes` }));
    }
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify({ done }));
