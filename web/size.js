// Holds the built interface to its budget: what a browser loads for each page, gzipped.
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const KB = 1000;
// "explorer" is the API explorer with its editor, which few people open. "start" is the form of a new run with its editor,
// which alone loads a parser of YAML; "all" is the rest. "all" was 410 before alerts and the doctor, and 420
// before the pages of incidents and deliveries, 440 with 31 of CSS before the page of an artifact, and 450 before
// the pages of retention and of reads of secrets, and 460 before that of erasures: each loads when it is opened. It was
// 465 before the page of a sign-in, which few people see, became a part of its own, and 467 before the nodes of a dbt
// step were live, and 469 before some of them could be retried: its dialog loads with the tab of models.
// "empty" is "first" with the part that says how to begin, which an installation without runs loads.
const budgets = { first: 200, empty: 200, run: 60, start: 60, explorer: 240, all: 472, css: 32 };

const dist = new URL("dist/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", dist), "utf8"));
const gzipped = (file) => gzipSync(readFileSync(new URL(file, dist))).length;

/** The entry and all it imports at once; what comes later is not counted. */
function eager(key, seen = new Set()) {
  const chunk = manifest[key];
  if (seen.has(chunk.file)) return seen;
  seen.add(chunk.file);
  for (const next of chunk.imports ?? []) eager(next, seen);
  return seen;
}
const sum = (files) => [...files].reduce((total, file) => total + gzipped(file), 0);

const first = eager("src/app.tsx", eager("index.html"));
const empty = [...eager("src/start/FirstSteps.tsx", new Set(first))];
const run = [...eager("src/routes/RunPage.tsx")].filter((file) => !first.has(file));
const start = [...eager("src/routes/StartPage.tsx")].filter((file) => !first.has(file) && !run.includes(file));
const explorer = [...eager("src/explorer/QueryEditor.tsx", eager("src/routes/ExplorerPage.tsx"))].filter(
  (file) => !first.has(file),
);
const assets = readdirSync(new URL("assets/", dist)).map((name) => `assets/${name}`);
const figures = {
  first: sum(first),
  empty: sum(empty),
  run: sum(run),
  start: sum(start),
  explorer: sum(explorer),
  all: sum(assets.filter((file) => file.endsWith(".js") && !start.includes(file) && !explorer.includes(file))),
  css: sum(assets.filter((file) => file.endsWith(".css"))),
};
let over = false;
for (const [name, bytes] of Object.entries(figures)) {
  const verdict = bytes <= budgets[name] * KB ? "ok" : "TOO LARGE";
  over ||= verdict !== "ok";
  console.log(`${name.padEnd(8)} ${(bytes / KB).toFixed(1).padStart(7)} kB of ${budgets[name]} kB  ${verdict}`);
}
process.exitCode = over ? 1 : 0;
