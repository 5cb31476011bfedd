import { expect, it } from "vitest";
import { spans } from "./ansi";

it("reads colours as words and keeps the text", () => {
  expect(spans("\u001B[32mPASS\u001B[0m \u001B[1;31mFAIL\u001B[0m 3")).toEqual([
    { text: "PASS", colour: "ansi-green", bold: false },
    { text: " ", colour: "", bold: false },
    { text: "FAIL", colour: "ansi-red", bold: true },
    { text: " 3", colour: "", bold: false },
  ]);
});

it("leaves markup alone and drops characters without a shape", () => {
  expect(spans("<script>alert(1)</script>\u0007")).toEqual([{ text: "<script>alert(1)</script>", colour: "", bold: false }]);
  expect(spans("\u001B[2J\u001B[?25lhello").map((span) => span.text).join("")).toBe("hello");
});
