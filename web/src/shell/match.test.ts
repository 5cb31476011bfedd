import { expect, it } from "vitest";
import { matching } from "./match";

it("finds entries by the beginnings of their words", () => {
  const entries = ["Go to Runs", "Go to Dead letters", "Start run"].map((word) => ({ word }));
  const found = (typed: string): string[] => matching(entries, typed).map((entry) => entry.word);
  expect(found("")).toEqual(["Go to Runs", "Go to Dead letters", "Start run"]);
  expect(found("ru")).toEqual(["Go to Runs", "Start run"]);
  expect(found("dead go")).toEqual(["Go to Dead letters"]);
  expect(found("un")).toEqual([]);
});
