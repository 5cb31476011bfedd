import { expect, it } from "vitest";
import { stepTitle } from "./stepTitle";

it("shows the name with the id, and an id without a name once", () => {
  expect(stepTitle("need-file", "Look for a file")).toBe("Look for a file (need-file)");
  expect(stepTitle("need-file", null)).toBe("need-file");
  expect(stepTitle("need-file", "need-file")).toBe("need-file");
  expect(stepTitle("need-file", "")).toBe("need-file");
});
