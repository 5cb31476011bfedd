import { expect, test } from "vitest";
import { ceilingWords, roleWords, scopeWords } from "./scope";

test("a right says where it holds in words, not in stars", () => {
  expect(scopeWords({ projectId: "*", environmentId: "*" })).toBe("every project");
  expect(scopeWords({ projectId: "shop", environmentId: "*" })).toBe("shop / every environment");
  expect(scopeWords({ projectId: "*", environmentId: "prod" })).toBe("every project / prod");
  expect(scopeWords({ projectId: "shop", environmentId: "prod" })).toBe("shop / prod");
});

test("keeps the server's name of a role that this page does not know", () => {
  expect(roleWords("ADMIN")).toBe("Admin");
  expect(roleWords("JANITOR")).toBe("JANITOR");
});

test("says the ceilings of sandboxes in words", () => {
  const open = { memory: null, cpu: null, pids: null, disk: null, connect: null, require: [] };
  expect(ceilingWords(open)).toBe("no bounds");
  expect(ceilingWords({ ...open, memory: 2_147_483_648, cpu: 1, connect: [], require: ["files"] })).toBe(
    "at most 2.0 GiB of memory, at most 1 core, no network connections, only workers that can limit files",
  );
});
