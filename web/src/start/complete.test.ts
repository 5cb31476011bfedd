import { describe, expect, it } from "vitest";
import { complete, type Schema } from "./complete";

/** As JSON, because an object with a member `then` looks like a promise to the linter. */
const RULE = JSON.parse(
  '{"if":{"properties":{"type":{"const":"COMMAND"}}},"then":{"properties":{"inputs":{"$ref":"#/$defs/COMMAND"}}}}',
) as Record<string, Schema>;
const NOOP: Schema = { type: "object", properties: {} };
const SCHEMA: Schema = {
  type: "object",
  properties: {
    schemaVersion: { enum: ["v1.2"], description: "The version." },
    metadata: { type: "object", properties: { planId: { type: "string" } } },
    steps: { type: "array", items: { $ref: "#/$defs/step" } },
  },
  $defs: {
    step: {
      type: "object",
      properties: {
        stepId: { type: "string" },
        type: { enum: ["COMMAND", "NOOP"] },
        dependsOn: { type: "array", items: { type: "string" } },
        inputs: { type: "object" },
        dispatch: { type: "object", properties: { cancellable: { type: "boolean" } } },
      },
      allOf: [RULE],
    },
    COMMAND: { type: "object", properties: { argv: { type: "array", description: "The program." } } },
    NOOP,
  },
};

/** The labels at the bar in a text. */
function labels(marked: string): string[] | null {
  const caret = marked.indexOf("|");
  const found = complete(SCHEMA, marked.replace("|", ""), caret);
  return found && found.options.map(({ label }) => label);
}

describe("the editor of a plan offers", () => {
  it("the fields of the object that the caret is in", () => {
    expect(labels("|")).toEqual(["schemaVersion", "metadata", "steps"]);
    expect(labels("me|")).toEqual(["metadata"]);
    expect(labels("metadata:\n  |")).toEqual(["planId"]);
    expect(labels("steps:\n  - |")).toEqual(["stepId", "type", "dependsOn", "inputs", "dispatch"]);
    expect(labels("steps:\n- stepId: a\n  t|")).toEqual(["type"]);
    expect(labels("steps:\n  - stepId: a\n    dispatch:\n      c|")).toEqual(["cancellable"]);
  });

  it("the words of a field, and the steps that others can depend on", () => {
    expect(labels("steps:\n  - type: C|")).toEqual(["COMMAND"]);
    expect(labels("steps:\n  - dispatch:\n      cancellable: |")).toEqual(["true", "false"]);
    expect(labels("steps:\n  - stepId: load\n  - stepId: test\n    dependsOn:\n      - l|")).toEqual(["load"]);
  });

  it("the inputs of the step's own type", () => {
    const steps = "steps:\n  - stepId: a\n    type: NOOP\n  - stepId: b\n    type: COMMAND\n    inputs:\n      |";
    expect(labels(steps)).toEqual(["argv"]);
    expect(labels(steps.replace("COMMAND", "NOOP"))).toBeNull();
  });

  it("nothing where it knows nothing", () => {
    expect(labels("steps:\n  - stepId: a|")).toBeNull();
    expect(labels('{"st|')).toBeNull();
  });

  it("text that goes on as the field needs", () => {
    expect(complete(SCHEMA, "st", 2)?.options).toEqual([{ label: "steps", detail: "", insert: "steps:\n  - " }]);
  });
});
