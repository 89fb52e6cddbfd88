// Watches over every page of a browser context. Whatever no page may do is noted: run what was planted, break the
// Content-Security-Policy, write an error to the console, ask another origin for something, or open a dialog of the browser.

// planted tells of what the policy stopped, and of hostile content that was run: all of it sets window.__pwned.
const planted = () => {
  Object.defineProperty(window, "__pwned", { set(where) { console.error(`hostile content ran: ${where}`); } });
  addEventListener("securitypolicyviolation", (e) => console.error(`policy broken: ${e.violatedDirective} by ${e.blockedURI || e.sample}`));
};

// watch notes in what `seen` gives at that time. `allow` holds what the check expects: statuses of answers, which browsers call
// errors, and origins of frames around ours.
export const watch = async (context, base, seen, allow) => {
  await context.addInitScript(planted);
  context.on("request", (r) => {
    const { origin, protocol } = new URL(r.url());
    if (origin !== base && !["data:", "about:"].includes(protocol) && !allow.has(origin)) seen().push(`asked for ${r.url()}`);
  });
  context.on("console", (m) => {
    const expected = /the server responded with a status of (\d+)/.exec(m.text());
    if (m.type() === "error" && !(expected && allow.has(Number(expected[1])))) {
      seen().push(`console, at ${m.location().url}: ${m.text()}`);
    }
  });
  context.on("weberror", (e) => seen().push(`error: ${e.error().message}`));
  context.on("dialog", (d) => { seen().push(`dialog: ${d.message()}`); d.dismiss(); });
};
