// schedule makes one that has something hostile in all that it may.
const schedule = (t, where) => {
  const hostile = `"><script>window.__pwned='schedule ${where}'</script>`;
  return t.api("POST", `/v1/tenants/${t.stage.tenants.script}/schedules`, {
    cron: "30 9 29 2 *", timezone: "America/Argentina/ComodRivadavia", type: "report.due", payload: { text: hostile }, description: hostile,
    group_key: hostile, metadata: { note: hostile },
  });
};

// Every page: what a visitor of which role sees where. `role` is "" for who is not signed in. A path may be a function of the
// check, for those with an id in them. `alike`: the page is like another but for its content, and one look at it will do. The roles of the portal's
// visitors are portal, of the tenant with hostile endpoints, and portal-reader, who may change nothing.
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
  { name: "alerts", path: "/console/alerts", role: "support" },
  { name: "all alerts", path: "/console/alerts?state=all", role: "viewer", alike: true },
  ...["markup", "login", "gone", "moved-away"].map((name) => ({
    name: `the alert of ${name}`, role: "support", alike: name !== "markup", path: async (t) => {
      const { data } = await t.api("GET", "/v1/alerts?limit=250");
      return `/console/alerts/${data.find((a) => a.endpoint_id === t.stage.endpoints[name].ID).id}`;
    },
  })),

  { name: "tenants", path: "/console/tenants", role: "admin" },
  { name: "a tenant", path: (t) => `/console/tenants/${t.stage.tenants.script}`, role: "admin" },
  ...["image", "turned", "long", "emoji", "template"].map((name) => ({
    name: `the tenant ${name}`, path: (t) => `/console/tenants/${t.stage.tenants[name]}`, role: "viewer", alike: true,
  })),
  { name: "no schedules", path: (t) => `/console/tenants/${t.stage.tenants.image}/schedules`, role: "viewer", alike: true },
  { name: "a schedule", role: "support", path: async (t) => `/console/schedules/${(await schedule(t, "page")).id}` },
  {
    name: "schedules", role: "viewer", path: async (t) => {
      await schedule(t, "list");
      return `/console/tenants/${t.stage.tenants.script}/schedules`;
    },
  },
  { name: "a new tenant", path: "/console/tenants/new", role: "admin" },
  { name: "changing a tenant", path: (t) => `/console/tenants/${t.stage.tenants.quote}/edit`, role: "admin", alike: true },
  { name: "API keys", path: "/console/api-keys", role: "admin" },
  { name: "a new API key", path: "/console/api-keys/new", role: "admin" },
  { name: "an API key", role: "admin", path: async (t) => `/console/api-keys/${(await t.api("GET", "/v1/api-keys?limit=1")).data[0].id}` },
  { name: "the audit log", path: "/console/audit-log", role: "admin" },

  { name: "retrying many", path: "/console/deliveries/bulk?act=retry&state=failed", role: "support" },
  { name: "retrying none", path: `/console/deliveries/bulk?act=retry&event_type=${encodeURIComponent("<script>window.__pwned='bulk'</script>")}`, role: "support", alike: true },
  { name: "events of nobody", path: "/console/events", role: "viewer" },
  { name: "events", path: (t) => `/console/events?tenant=${t.stage.tenants.script}`, role: "viewer" },
  ...["markup", "filtered", "payload-page", "payload-bytes", "payload-empty", "payload-large", "tenant-turned"].map((name) => ({
    name: `the event ${name}`, path: (t) => `/console/events/${t.stage.events[name]}`, role: "support", alike: name !== "filtered",
  })),
  { name: "endpoints", path: "/console/endpoints", role: "viewer" },
  { name: "endpoints that fail", path: "/console/endpoints?health=failing", role: "viewer", alike: true },
  ...["markup", "gone", "slow-down", "calm"].map((name) => ({
    name: `the endpoint ${name}`, path: (t) => `/console/endpoints/${t.stage.endpoints[name].ID}`, role: "support", alike: name !== "markup",
  })),
  { name: "a replay", path: (t) => `/console/endpoints/${t.stage.endpoints.markup.ID}/replay`, role: "support" },
  { name: "a replay with its preview", path: (t) => `/console/endpoints/${t.stage.endpoints.markup.ID}/replay?since=2026-01-01T00:00&state=`, role: "support", alike: true },
  { name: "event types", path: "/console/event-types", role: "admin" },
  { name: "a new event type", path: "/console/new-event-type", role: "admin", alike: true },
  ...["hostile.type", "__proto__", `${"long.".repeat(25)}end`].map((name) => ({
    name: `the event type ${name.slice(0, 20)}`, path: `/console/event-types/${name}`, role: "admin", alike: name !== "hostile.type",
  })),
  { name: "jobs", path: "/console/jobs", role: "viewer" },

  { name: "a spent link into the portal", path: "/portal/enter?token=spent", role: "", status: 401 },
  { name: "endpoints in the portal", path: "/portal/", role: "portal" },
  { name: "no endpoints in the portal", path: "/portal/", role: "portal-reader", alike: true },
  { name: "a new endpoint in the portal", path: "/portal/endpoints/new", role: "portal" },
  ...["", "/settings", "/signing", "/test", "/replay", "/replay?since=2020-01-01T00:00&state=all&until="].map((page) => ({
    name: `an endpoint in the portal, ${page || "/"}`, path: (t) => `/portal/endpoints/${t.stage.endpoints.markup.ID}${page}`, role: "portal",
  })),
  ...["gone", "expired"].map((name) => ({
    name: `the endpoint ${name} in the portal`, path: (t) => `/portal/endpoints/${t.stage.endpoints[name].ID}`, role: "portal-reader", alike: true,
  })),
  { name: "signing, for who reads only", path: (t) => `/portal/endpoints/${t.stage.endpoints.markup.ID}/signing`, role: "portal-reader", alike: true },
  { name: "deliveries in the portal", path: "/portal/deliveries", role: "portal" },
  ...["markup", "binary", "split", "expired"].map((name) => ({
    name: `a delivery to ${name} in the portal`, role: "portal", alike: name !== "markup", path: async (t) => `/portal/deliveries/${(await t.deliveryOf(name)).id}`,
  })),
  { name: "event types in the portal", path: "/portal/event-types", role: "portal" },
  { name: "nothing here, in the portal", path: "/portal/%3Cscript%3Ewindow.__pwned='path'%3C/script%3E", role: "portal", status: 404, alike: true },

  { name: "nothing here", path: "/console/%3Cscript%3Ewindow.__pwned='path'%3C/script%3E", role: "viewer", status: 404 },
];
