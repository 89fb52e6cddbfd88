// The portal in a frame: in pages of the origins that the configuration names, and in no other.
import assert from "node:assert/strict";

export default async (check, stage) => {
  const frame = async (t, origin) => {
    const page = await t.as("");
    page.allow.add(origin);
    await page.goto(`${origin}/frame?src=${encodeURIComponent(stage.base + (await t.link("script")))}`);
    return page;
  };

  await check("an allowed origin frames it, and it works there", async (t) => {
    const page = await frame(t, stage.control);
    const portal = page.frameLocator("iframe");
    await portal.getByRole("heading", { name: "Endpoints" }).waitFor();
    const { partitionKey, ...cookie } = (await page.context().cookies(stage.base)).find((c) => c.name === "__Host-postrider_portal");
    assert.deepEqual([cookie.sameSite, cookie.secure, cookie.httpOnly], ["None", true, true]);
    assert.ok(partitionKey, "the cookie is not kept apart by the framing site");
  });

  await check("another origin does not", async (t) => {
    const page = await frame(t, stage.foreign);
    await t.eventually("a refusal", () => t.seen.some((s) => s.includes("frame-ancestors")));
    assert.equal(await page.frameLocator("iframe").getByRole("heading").count(), 0);
    t.seen.length = 0; // what the browser says of that
  });
};
