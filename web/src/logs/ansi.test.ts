import { expect, it } from "vitest";
import { markedSpans, spans } from "./ansi";

const seen = (text: string): string =>
  spans(text)
    .map((span) => span.text)
    .join("");

it("reads colours as words and keeps the text", () => {
  expect(spans("\u001B[32mPASS\u001B[0m \u001B[1;31mFAIL\u001B[0m 3")).toEqual([
    { text: "PASS", colour: "ansi-green", bold: false },
    { text: " ", colour: "", bold: false },
    { text: "FAIL", colour: "ansi-red", bold: true },
    { text: " 3", colour: "", bold: false },
  ]);
});

it("leaves markup alone and drops characters without a shape", () => {
  expect(spans("<script>alert(1)</script>\u0007")).toEqual([
    { text: "<script>alert(1)</script>", colour: "", bold: false },
  ]);
  expect(seen("\u001B[31mred\u001B[0m\u001B]0;title\u0007 and\u001B]52;c;ZXZpbA==\u001B\\ the rest")).toBe(
    "red and the rest",
  );
  expect(seen("\u001BPq#0\u001B\\a\u001B(Bb\u001Bcc\u001B]8;;https://x.example\u0007link\u001B]8;;\u0007")).toBe(
    "abclink",
  );
  expect(
    spans("\u001B[2J\u001B[?25lhello")
      .map((span) => span.text)
      .join(""),
  ).toBe("hello");
});

it("divides spans at the text that is searched for", () => {
  const parts = markedSpans("a needle, \u001B[31mneedle\u001B[0m", "needle");
  expect(parts.map(({ text, match, colour }) => [text, match, colour])).toEqual([
    ["a ", false, ""],
    ["needle", true, ""],
    [", ", false, ""],
    ["needle", true, "ansi-red"],
  ]);
  expect(markedSpans("plain", "")).toEqual([{ text: "plain", colour: "", bold: false, match: false }]);
});
