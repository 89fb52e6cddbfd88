// Every page: what a visitor of which role sees where. `role` is "" for who is not signed in. A path may be a function of the
// check, for those with an id in them. `alike`: the page is like another but for its content, and one look at it will do.
export const pages = [
  { name: "sign in", path: "/console/signin", role: "" },
  { name: "overview", path: "/console/", role: "viewer" },
  { name: "deliveries", path: "/console/deliveries", role: "support" },
  { name: "deliveries that failed", path: "/console/deliveries?state=failed", role: "support" },
  { name: "no deliveries", path: "/console/deliveries?event_type=none.of.these", role: "viewer" },
  { name: "a filter that is wrong", path: `/console/deliveries?state=%3Cscript%3E&tenant=${encodeURIComponent('"><img src=x onerror=window.__pwned="filter">')}&since=x`, role: "viewer", status: 422, alike: true },
  ...["markup", "header-name", "split", "status-line", "binary", "json", "huge", "moved", "moved-away", "login", "gone", "rejecting", "slow-down",
    "closing", "mute", "refused", "expired", "deaf", "calm"].map((name) => ({
    name: `a delivery to ${name}`, role: "support", alike: name !== "markup", path: async (t) => `/console/deliveries/${(await t.deliveryOf(name)).id}`,
  })),
  { name: "a delivery as curl", role: "support", path: async (t) => `/console/deliveries/${(await t.deliveryOf("markup")).id}?curl` },
  { name: "nothing here", path: "/console/%3Cscript%3Ewindow.__pwned='path'%3C/script%3E", role: "viewer", status: 404 },
];
