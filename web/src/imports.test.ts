import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, it } from "vitest";

const ROOT = import.meta.dirname;
const MOST_FILES = 40;

/**
 * The folders of src, and the folders that each may import. A folder imports only folders that stand above it, so the
 * arrows form no circle. "." is src itself. Tests and style sheets are not part of the table.
 */
const MAY_IMPORT: Readonly<Record<string, string>> = {
  "api/gen": "",
  format: "",
  address: "",
  messages: "api/gen format",
  ui: "format messages",
  api: "api/gen format",
  copyas: "messages ui",
  status: "api format messages ui",
  forms: "api format messages ui",
  session: "api api/gen forms messages ui",
  page: "api format messages session ui",
  runstate: "api api/gen format status",
  receipts: "api api/gen format messages runstate session ui",
  waits: "api api/gen format messages runstate status ui",
  freshness: "api format messages runstate ui",
  events: "api api/gen format messages page runstate ui",
  history: "api api/gen events format messages page runstate status ui",
  actions: "api api/gen copyas format forms history messages receipts runstate session status ui",
  logs: "api api/gen format messages page ui",
  topology: "api runstate",
  dag: "api format messages runstate status topology ui waits",
  mosaic: "address format messages runstate status topology ui",
  plans: "api api/gen format messages page session status ui",
  compare: "api api/gen format forms messages plans status ui",
  step: "actions address api api/gen format logs messages page plans runstate status topology ui waits",
  artifacts: "format messages step ui",
  timeline: "address api api/gen format messages runstate status step topology ui",
  steps: "actions address api format messages runstate status step timeline topology ui waits",
  plan: "address api api/gen format messages page ui",
  notes: "api api/gen format forms messages page receipts session ui",
  alerts: "api api/gen format forms messages page session ui",
  incidents: "alerts api api/gen format forms messages page receipts session ui",
  deliveries: "api api/gen format forms messages page receipts session ui",
  doctor: "actions address api api/gen format messages page runstate status ui waits",
  run: "actions address api api/gen artifacts compare copyas dag events format freshness history logs messages mosaic page plan plans receipts runstate session status step steps timeline topology ui notes alerts incidents doctor waits",
  runlist: "address api api/gen format forms messages runstate session status ui",
  bulk: "actions api api/gen copyas format forms messages receipts runstate session status ui",
  start: "api api/gen dag forms messages session ui",
  queue: "api api/gen format messages session status ui",
  attention: "actions api api/gen bulk format messages plans receipts session ui",
  inbox: "actions api api/gen format messages ui",
  audit: "api api/gen format messages page plans runlist ui",
  health: "api api/gen format messages page session ui",
  deadletters: "api api/gen events format messages page session ui",
  admin: "api api/gen format forms messages page receipts runlist session status ui",
  explorer: "api api/gen messages ui",
  shell: "api api/gen attention copyas format forms inbox messages receipts runlist session status ui",
  routes:
    "actions address admin alerts api api/gen artifacts attention audit bulk compare copyas deadletters deliveries doctor explorer format forms freshness health history inbox incidents messages page plans queue receipts run runlist runstate session shell start status step ui waits",
  ".": "api api/gen routes runstate",
  testing: "actions api api/gen bulk runstate session",
  gallery:
    "actions address admin api api/gen attention bulk compare forms freshness health inbox messages page plans receipts run runlist runstate session shell start status step steps testing ui",
};

const SPECIFIER = /(?:\bfrom|\bimport)\s*\(?\s*"(\.[^"?]+)/g;

/** The TypeScript files of src, by their path below it. */
const sources = readdirSync(ROOT, { recursive: true, encoding: "utf8" }).filter(
  (file) => /\.tsx?$/.test(file) && !/\.test\.tsx?$/.test(file),
);

/** Each file with the files that it imports, statically or when they are needed. */
const graph = new Map(
  sources.map((file) => {
    const text = readFileSync(join(ROOT, file), "utf8");
    const targets = [...text.matchAll(SPECIFIER)].flatMap(([, specifier = ""]) => {
      const base = relative(ROOT, join(ROOT, dirname(file), specifier));
      return [base, `${base}.ts`, `${base}.tsx`, join(base, "index.ts")].filter((path) => sources.includes(path));
    });
    return [file, targets] as const;
  }),
);

/** The first circle that a walk from the files finds, as a list of files that ends where it begins; null for none. */
function circle(edges: ReadonlyMap<string, readonly string[]>): string[] | null {
  const done = new Set<string>();
  const walk = (file: string, path: readonly string[]): string[] | null => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return null;
    for (const target of edges.get(file) ?? []) {
      const found = walk(target, [...path, file]);
      if (found) return found;
    }
    done.add(file);
    return null;
  };
  for (const file of edges.keys()) {
    const found = walk(file, []);
    if (found) return found;
  }
  return null;
}

it("finds a circle of three files", () => {
  const edges = new Map([
    ["a", ["b"]],
    ["b", ["c"]],
    ["c", ["d", "b"]],
    ["d", []],
  ]);
  expect(circle(edges)).toEqual(["b", "c", "b"]);
});

it("finds the imports of the UI", () => {
  expect(graph.get("app.tsx")).toEqual(["routes/router.tsx"]);
  expect(graph.get("begin.ts"), "an import that waits").toContain("routes/RunPage.tsx");
});

it("has no circle of imports", () => {
  expect(circle(graph)).toBeNull();
});

it("imports only what the table of folders allows", () => {
  const wrong = [...graph].flatMap(([file, targets]) =>
    targets
      .filter((target) => dirname(target) !== dirname(file))
      .filter((target) => !(MAY_IMPORT[dirname(file)] ?? "").split(" ").includes(dirname(target)))
      .map((target) => `${file} imports ${target}`),
  );
  expect(wrong).toEqual([]);
});

it("has a table in which each folder is below those that it may import, and in which each arrow is used", () => {
  const folders = Object.keys(MAY_IMPORT);
  const used = new Set([...graph].flatMap(([file, targets]) => targets.map((to) => `${dirname(file)} ${dirname(to)}`)));
  for (const [i, folder] of folders.entries()) {
    for (const target of (MAY_IMPORT[folder] ?? "").split(" ").filter((name) => name !== "")) {
      expect(folders.slice(0, i), `${folder} may import ${target}, which stands below it`).toContain(target);
      expect(used, `no file of ${folder} imports ${target}`).toContain(`${folder} ${target}`);
    }
  }
});

it(`has no folder of more than ${MOST_FILES} files`, () => {
  const sizes = new Map<string, number>();
  for (const file of readdirSync(ROOT, { recursive: true, encoding: "utf8", withFileTypes: true })) {
    if (!file.isFile()) continue;
    const folder = relative(ROOT, file.parentPath);
    sizes.set(folder, (sizes.get(folder) ?? 0) + 1);
  }
  expect([...sizes].filter(([, size]) => size > MOST_FILES)).toEqual([]);
});
