import { expect, test } from "vitest";
import { roleWords, scopeWords } from "./scope";

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
