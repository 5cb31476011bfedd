import { describe, expect, it } from "vitest";
import { lineOf, locate, planOf } from "./language";

const YAML = `schemaVersion: v1.2
metadata:
  createdAt: 2026-11-21T00:00:00Z
steps:
  - stepId: load # the first
    dependsOn: [a, b]
  - stepId: 'test'
`;

function at(text: string, path: string): string {
  return text.slice(...(locate(text, path) ?? [0, 0]));
}

describe("the text of a plan", () => {
  it("is YAML or JSON", () => {
    expect(planOf(YAML)).toEqual({
      value: {
        schemaVersion: "v1.2",
        metadata: { createdAt: "2026-11-21T00:00:00Z" },
        steps: [{ stepId: "load", dependsOn: ["a", "b"] }, { stepId: "test" }],
      },
    });
    expect(planOf('{"steps": [1, true, null, "x"]}')).toEqual({ value: { steps: [1, true, null, "x"] } });
  });

  it("says at which line it cannot be read", () => {
    const result = planOf("a: 1\nb: [1, 2\nc: 3\n");
    expect("problem" in result && lineOf("a: 1\nb: [1, 2\nc: 3\n", result.problem.at[0])).toBeGreaterThan(1);
    const twice = planOf("a: 1\na: 2\n");
    expect("problem" in twice && twice.problem.message).toMatch(/unique/i);
  });

  it("bounds what aliases stand for", () => {
    const bomb = [
      "a: &a [x,x,x,x,x,x,x,x,x]",
      ..."bcdefg".split("").map((n, i) => `${n}: &${n} [${`*${"abcdef"[i]},`.repeat(9).slice(0, -1)}]`),
    ];
    expect(planOf(bomb.join("\n"))).toHaveProperty("problem");
  });

  it("finds the part of a path, or its nearest parent, in both formats", () => {
    expect(at(YAML, "steps[0].dependsOn")).toBe("dependsOn: [a, b]");
    expect(at(YAML, "steps[0].dependsOn[1]")).toBe("b");
    expect(at(YAML, "steps[1]")).toBe("stepId: 'test'");
    expect(at(YAML, "steps[1].timeout")).toBe("stepId: 'test'");
    expect(at(YAML, "nowhere")).toBe("");
    expect(at('{"steps": [{"stepId": "a"}]}', "steps[0].stepId")).toBe('"stepId": "a"');
  });
});
