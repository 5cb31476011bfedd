import { expect, it } from "vitest";
import { of, refused, screen, show, vi } from "../testing/render";
import { BreakGlassTimer } from "./BreakGlassTimer";

it("shows the time that is left, and ends the role early", async () => {
  const { user, sent } = await show(<BreakGlassTimer />, {
    viewer: { breakGlassRoles: ["ADMIN"], breakGlassUntil: new Date(Date.now() + 90_500).toISOString() },
    answers: { EndBreakGlass: refused("UNAVAILABLE", "Try again.") },
  });
  expect(screen.getByRole("timer").textContent).toMatch(/^Admin 1:30$/);
  await user.click(screen.getByRole("button", { name: "End" }));
  await vi.waitFor(() => expect(screen.getByRole("alert").textContent).toContain("Try again."));
  expect(of(sent, "EndBreakGlass")).toHaveLength(1);
});
