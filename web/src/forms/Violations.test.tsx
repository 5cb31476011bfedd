import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { showIn, ViolationList, Wrong, wrongProps, wrongWith } from "./Violations";

const VIOLATIONS = [
  { path: "steps[1].dependsOn", code: "UNKNOWN_STEP", message: "unknown: stg_x" },
  { path: "projectId", code: "REQUIRED", message: "is required" },
];

it("lists all violations, and each leads to its place", async () => {
  const goTo = vi.fn<(path: string) => boolean>(() => true);
  const { user } = await show(<ViolationList violations={VIOLATIONS} goTo={goTo} />);
  expect(screen.getAllByRole("listitem").map((item) => item.textContent)).toEqual([
    "steps[1].dependsOn: unknown: stg_x",
    "projectId: is required",
  ]);
  await user.click(screen.getByRole("button", { name: "projectId" }));
  expect(goTo).toHaveBeenCalledExactlyOnceWith("projectId");
});

it("describes the field that a violation is about", async () => {
  const text = wrongWith(VIOLATIONS, "projectId");
  await show(
    <label>
      Project
      <input {...wrongProps("why", text)} />
      <Wrong id="why" text={text} />
    </label>,
  );
  const input = screen.getByRole("textbox");
  expect(input.getAttribute("aria-invalid")).toBe("true");
  expect(document.getElementById(input.getAttribute("aria-describedby") ?? "")?.textContent).toBe("is required");
  expect(wrongWith(VIOLATIONS, "steps"), "a part of the field").toBe("unknown: stg_x");
  expect(wrongWith(VIOLATIONS, "project")).toBeNull();
});

it("selects the part of a JSON text that a path names", async () => {
  await show(<textarea aria-label="Plan" defaultValue={'{\n  "steps": [1, 2]\n}'} />);
  const area = screen.getByRole<HTMLTextAreaElement>("textbox");
  expect(showIn(area, "steps[1]")).toBe(true);
  expect(area.value.slice(area.selectionStart, area.selectionEnd)).toBe("2");
  expect(document.activeElement).toBe(area);
  expect(showIn(area, "reason")).toBe(false);
});
