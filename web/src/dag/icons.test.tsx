import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { step } from "../testing/fixtures";
import { stepLook } from "../status/look";
import { PATHS } from "./icons";

const STATUSES = ["PENDING", "RUNNING", "SUCCESS", "FAILED", "SKIPPED", "UNKNOWN"] as const;

/** The commands of a path with their numbers, without the separators that one may write or leave out. */
function numbers(path: string): number[] {
  return (path.match(/-?\d*\.\d+|-?\d+/g) ?? []).map(Number);
}

it("has the drawing of every status of a step, with the numbers of its icon", () => {
  const looks = [
    ...STATUSES.map((status) => stepLook({ ...step("a"), status })),
    stepLook({ ...step("a"), pendingRetry: true }),
    stepLook({ ...step("a"), status: "RUNNING", substatus: "WAITING_MANUAL" }),
    stepLook({ status: "FAILED", statusRaw: "FAILED", pendingRetry: false, error: { code: "CANCELLED" } as never }),
  ];
  for (const { icon: Icon, word } of looks) {
    const path = PATHS.get(Icon);
    expect(path, `${word} has a drawing`).toBeDefined();
    const parts = [...renderToStaticMarkup(<Icon />).matchAll(/ d="([^"]+)"/g)].map(([, d]) => d ?? "");
    const own = numbers(path ?? "").join(" ");
    for (const part of parts) expect(own, `${word}: ${part}`).toContain(numbers(part).slice(2, 6).join(" "));
  }
});
