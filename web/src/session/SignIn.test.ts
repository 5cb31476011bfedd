import { expect, test } from "vitest";
import { wanted } from "./SignIn";

const at = (path: string): Location => new URL(path, "https://dvt.example") as unknown as Location;

test("where one wanted to go is a path of this server", () => {
  expect(wanted(at("/runs/7?view=graph"))).toBe("/runs/7?view=graph");
  expect(wanted(at("/signin?to=%2Fruns%3Fq%3Da"))).toBe("/runs?q=a");
  for (const to of [
    "https://elsewhere.example",
    "//elsewhere.example",
    "/\\elsewhere.example",
    "/\t/elsewhere.example",
    "javascript:alert(1)",
    "/signin?to=/",
    "",
  ]) {
    expect(wanted(at(`/signin?to=${encodeURIComponent(to)}`))).toBe("/");
  }
});
