// The portal of a tenant: coming in, and what its owner does there.
import assert from "node:assert/strict";

export default async (check, stage) => {
  await check("a link opens once", async (t) => {
    const link = await t.link("script");
    const page = await t.as("", { javaScriptEnabled: false });
    await page.open(link);
    await page.open(link); // looking does not spend it
    await page.getByRole("button", { name: "Continue" }).click();
    await page.waitForURL("**/portal/");
    await page.getByText("<script>window.__pwned='name of a tenant'</script>").waitFor();
    const other = await t.as("");
    await other.open(link, 401);
    await other.getByText("does not open any more").waitFor();
    await page.getByRole("button", { name: "Leave" }).click();
    await page.getByText("You have left").first().waitFor();
    page.allow.add(401);
    await page.open("/portal/", 401);
  });

  await check("with JavaScript a link opens by itself", async (t) => {
    const page = await t.enter("script");
    await page.getByRole("heading", { name: "Endpoints" }).waitFor();
  });

  await check("nobody comes in without a link, or into the console with one", async (t) => {
    const stranger = await t.as("");
    for (const path of ["/portal/", "/portal/enter", "/portal/enter?token=%3Cscript%3E"]) await stranger.open(path, 401);
    const owner = await t.enter("script");
    await owner.open("/console/deliveries");
    assert.match(owner.url(), /\/console\/signin/);
    const staff = await t.as("admin");
    await staff.open("/portal/", 401);
  });
};
