// Runs the tests of docs/ui-checks.md and prints a row for each check: its tests, and their results. Words after the
// command narrow the tests of the browser, such as `node checks.js run-truth look-size`.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync } from "node:fs";

const OUT = new URL("e2e/out/", import.meta.url);
const NUMBERS = /^((?:\d{1,2} )+)/;

/** Runs a program and returns the report that it wrote; its own lines go to stderr. */
function reportOf(name, args, env = {}) {
  const file = new URL(name, OUT);
  rmSync(file, { force: true });
  const { error } = spawnSync("npx", args(file.pathname), {
    cwd: new URL(".", import.meta.url),
    env: { ...process.env, ...env },
    stdio: ["ignore", 2, 2],
  });
  if (error) throw error;
  return JSON.parse(readFileSync(file, "utf8"));
}

/** The tests of the browser: a suite of Playwright holds suites and specs. */
function* browserTests({ file, suites = [], specs = [] }) {
  for (const suite of suites) yield* browserTests({ ...suite, file: suite.file ?? file });
  for (const { title, tests } of specs) {
    const said = tests.map(({ status }) => status);
    const result = said.every((status) => status === "skipped")
      ? "not run"
      : said.includes("unexpected")
        ? "FAILED"
        : said.includes("flaky")
          ? "flaky"
          : "passed";
    const took = tests.flatMap(({ results }) => results).reduce((sum, { duration }) => sum + duration, 0);
    yield { file: `e2e/${file}`, title, result, took };
  }
}

function* unitTests({ testResults }) {
  for (const { name, assertionResults } of testResults)
    for (const { title, status, duration } of assertionResults)
      yield {
        file: name.slice(name.lastIndexOf("/src/") + 1),
        title,
        result: status === "passed" ? "passed" : status === "failed" ? "FAILED" : "not run",
        took: duration ?? 0,
      };
}

mkdirSync(OUT, { recursive: true });
const narrowed = process.argv.slice(2);
const unit = reportOf("checks-unit.json", (file) => [
  "vitest",
  "run",
  "--testNamePattern",
  "(^|\\s)\\d{1,2} ",
  "--reporter=json",
  `--outputFile=${file}`,
]);
const browser = reportOf(
  "checks-browser.json",
  () => ["playwright", "test", ...narrowed, "-g", "\\.ts (\\d{1,2} )+", "--reporter=list,json"],
  { PLAYWRIGHT_JSON_OUTPUT_NAME: new URL("checks-browser.json", OUT).pathname },
);
const tests = [...unitTests(unit), ...browserTests(browser)].flatMap((test) =>
  (NUMBERS.exec(test.title)?.[1].trim().split(" ") ?? []).map((number) => ({ ...test, number: Number(number) })),
);
const page = readFileSync(new URL("../docs/ui-checks.md", import.meta.url), "utf8");
const checks = [...page.matchAll(/^\| (\d{1,2}) \| (.+?) \|/gm)].map(([, number, holds]) => ({
  number: Number(number),
  holds,
}));

const count = { passed: 0, flaky: 0, "not run": 0, FAILED: 0 };
console.log("| No | What holds | Tests | Result | Seconds |\n|---|---|---|---|---|");
for (const { number, holds } of checks) {
  const own = tests.filter((test) => test.number === number);
  const ran = own.filter(({ result }) => result !== "not run");
  const result = ran.some((test) => test.result === "FAILED")
    ? "FAILED"
    : ran.length === 0
      ? "not run"
      : ran.some((test) => test.result === "flaky")
        ? "flaky"
        : "passed";
  count[result] += 1;
  const where = [...new Set(own.map(({ file }) => file))].join(", ");
  const seconds = (ran.reduce((sum, { took }) => sum + took, 0) / 1000).toFixed(1);
  console.log(`| ${number} | ${holds} | ${ran.length} in ${where} | ${result} | ${seconds} |`);
}
console.log(
  `\n${checks.length} checks: ${count.passed} passed, ${count.flaky} flaky, ${count.FAILED} failed, ${count["not run"]} not run.`,
);
for (const { number, file, title, result } of tests)
  if (result === "FAILED") console.log(`FAILED ${number}: ${file}: ${title}`);
process.exitCode = count.passed + count.flaky === checks.length ? 0 : 1;
