import { expect, it } from "vitest";
import { stepTitle } from "./stepTitle";

it("shows the name, and the id of a step without one", () => {
  expect(stepTitle("need-file", "Look for a file")).toBe("Look for a file");
  expect(stepTitle("need-file", null)).toBe("need-file");
  expect(stepTitle("need-file", "need-file")).toBe("need-file");
  expect(stepTitle("need-file", "")).toBe("need-file");
});
