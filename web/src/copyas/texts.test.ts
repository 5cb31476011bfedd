import { readFileSync } from "node:fs";
import { buildSchema, parse, validate } from "graphql";
import { expect, it } from "vitest";
import { listTexts, runTexts, shellWord, rerunTexts, signalTexts, type Texts } from "./texts";

const ORIGIN = "https://dvt.example.com";
const SCHEMA = buildSchema(readFileSync("../schema.graphqls", "utf8"));

/** The errors of the document against the schema. */
function wrong({ graphql }: Texts): string[] {
  const document = graphql.split("\n\n# Variables")[0] ?? "";
  return validate(SCHEMA, parse(document)).map(({ message }) => message);
}

it("quotes words of a shell", () => {
  expect(shellWord("nightly@1.0")).toBe("nightly@1.0");
  expect(shellWord("it's $HOME")).toBe(`'it'\\''s $HOME'`);
  expect(shellWord("")).toBe("''");
});

it("copies a run and a list in forms that the API accepts", () => {
  const run = runTexts(ORIGIN, "7f3a");
  expect(run.cli).toBe("dvt run show 7f3a");
  expect(run.curl).toContain('-H "Authorization: Bearer $DVT_TOKEN"');
  const list = listTexts(ORIGIN, { statuses: ["FAILED"], text: "night ly" });
  expect(list.cli).toBe("dvt run list --status failed --text 'night ly'");
  expect([run, list].flatMap(wrong)).toEqual([]);
});

function signal(action: string, stepId: string | null): Texts | null {
  return signalTexts(ORIGIN, { action, runId: "7f3a", stepId, reason: "it's late" });
}

it("copies each signal that the CLI has a command for", () => {
  expect(signal("RETRY_STEP", "load")?.cli).toBe(`dvt run retry 7f3a load --reason 'it'\\''s late'`);
  expect(signal("EMERGENCY_STOP", null)?.graphql).toContain('"emergencyStop": {');
  for (const action of ["PAUSE", "RESUME", "RETRY_STEP", "SKIP_STEP", "CANCEL", "EMERGENCY_STOP"]) {
    const texts = signal(action, null);
    expect(texts && wrong(texts), action).toEqual([]);
  }
  expect(signal("APPROVE", null)).toBeNull();
});

it("keeps the body of curl as one word, whatever the reason holds", () => {
  const { curl } = signalTexts(ORIGIN, {
    action: "PAUSE",
    runId: "7f3a",
    stepId: null,
    reason: "a'; rm -rf $HOME",
  }) ?? {
    curl: "",
  };
  expect(curl.split("-d ")[1]).toMatch(/^'.*'$/s);
  expect(curl).toContain(`a'\\''; rm`);
});

it("copies a rerun, of one run or of several", () => {
  const rerun = { from: { failed: true }, params: { day: "26", full: true }, reason: "wrong day" };
  const one = rerunTexts(ORIGIN, { ...rerun, runIds: ["7f3a"] });
  expect(one.cli).toBe(`dvt run rerun 7f3a --from failed --param 'day="26"' --param full=true --reason 'wrong day'`);
  expect(wrong(one)).toEqual([]);
  const many = rerunTexts(ORIGIN, { ...rerun, params: null, runIds: ["7f3a", "c01d"] });
  expect(many.cli).toBe(
    `printf '%s\\n' 7f3a c01d | dvt bulk rerun --ids-from - --from failed --reason 'wrong day' --yes`,
  );
  expect(wrong(many)).toEqual([]);
});
