import { describe, expect, it } from "vitest";
import { locate } from "./jsonLocation";

const TEXT = JSON.stringify(
  {
    tenant: { maxActive: 5, 'a, "b"': [1, [2, 3]] },
    projects: [{ projectId: "shop" }, { projectId: "ba{nk", maxActive: -1 }],
    ttlMs: 300,
  },
  null,
  2,
);

function shown(path: string, text = TEXT): string | null {
  const at = locate(text, path);
  return at && text.slice(...at);
}

describe("the place of a path in a JSON text", () => {
  it("is the line of the member that the path names", () => {
    expect(shown("ttlMs")).toBe('"ttlMs": 300');
    expect(shown("tenant.maxActive")).toBe('"maxActive": 5');
    expect(shown("projects[1].maxActive")).toBe('"maxActive": -1');
    expect(shown("projects[1].projectId")).toBe('"projectId": "ba{nk"');
  });

  it("leaves out a first name that only the request knows", () => {
    expect(shown("settings.projects[1].maxActive")).toBe('"maxActive": -1');
    expect(shown("reason")).toBeNull();
  });

  it("is the nearest parent of what is missing", () => {
    expect(shown("projects[0].maxActive")).toBe("{");
    expect(shown("projects[7].maxActive")).toBe('"projects": [');
  });

  it("is found in a text on one line, and in none that is no JSON", () => {
    expect(shown("b[1]", '{"a":"x\\"]","b":[{"c":1},true],"d":null}')).toBe("true");
    expect(shown("d", '{"a":"x\\"]","b":[{"c":1},true],"d":null}')).toBe('"d":null');
    expect(locate("{", "a")).toBeNull();
    expect(locate("", "a")).toBeNull();
  });
});
