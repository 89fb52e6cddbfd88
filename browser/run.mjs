// Goes through the pages of the server that the standard input tells of, as JSON, and prints a line for each check. The
// subjects are files in subjects/; an argument names those that are wanted, with commas between them. Two are looked at
// at a time.
import { readFileSync, readdirSync } from "node:fs";
import { launch } from "./chromium.mjs";
import { Harness } from "./harness.mjs";

const stage = JSON.parse(readFileSync(0, "utf8"));
const wanted = (process.argv[2] || "").split(",").filter(Boolean);
const subjects = readdirSync(new URL("subjects/", import.meta.url)).filter((f) => f.endsWith(".mjs")).map((f) => f.slice(0, -4));
for (const name of wanted) {
  if (!subjects.includes(name)) throw new Error(`there is no subject ${name}; there are ${subjects.join(", ")}`);
}
const todo = subjects.filter((s) => !wanted.length || wanted.includes(s));
const browser = await launch();
let done = 0;
try {
  const harness = await Harness.start(browser, stage);
  const work = async () => {
    for (let subject = todo.shift(); subject; subject = todo.shift()) {
      const { default: look } = await import(`./subjects/${subject}.mjs`);
      const made = await harness.look(subject, look);
      if (!made) throw new Error(`${subject} makes no checks`);
      done += made;
    }
  };
  await Promise.all([work(), work()]);
  const slow = harness.took.sort(([a], [b]) => b - a).slice(0, 15);
  console.error(`${done} checks in ${Math.round(performance.now() / 1000)} s; the slowest:\n${slow.map(([ms, name]) => `${ms} ms  ${name}`).join("\n")}`);
} finally {
  await browser.close();
}
console.log(JSON.stringify({ done }));
