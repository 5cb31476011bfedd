import { expect, it } from "vitest";
import { of, refused, screen, show, vi } from "../testing/render";
import { Problem } from "../page/Problem";
import { ApiError } from "../api/error";
import { BreakGlassButton } from "./BreakGlass";
import { BreakGlassTimer } from "./BreakGlassTimer";

const ROLES = [{ role: "ADMIN", maxMinutes: 30 } as const];

it("is not offered to people whom the policy does not name", async () => {
  await show(
    <div>
      page <BreakGlassButton />
    </div>,
  );
  expect(screen.queryByRole("button")).toBeNull();
});

it("takes a role for at most the minutes of the policy, with a reason", async () => {
  const { user, sent } = await show(<BreakGlassButton />, {
    viewer: { breakGlass: ROLES },
    answers: { BreakGlass: { breakGlass: { role: "ADMIN", until: "2026-11-27T16:00:00Z", policyVersion: 2 } } },
  });
  await user.click(screen.getByRole("button", { name: "Break glass…" }));
  const take = await screen.findByRole("button", { name: "Take the role Admin" });
  expect(take.hasAttribute("disabled"), "without a reason").toBe(true);
  const minutes = screen.getByLabelText<HTMLInputElement>("Minutes (at most 30)");
  expect(minutes.max).toBe("30");
  await user.type(screen.getByLabelText("Reason (required)"), "prod is down");
  await user.click(take);
  await vi.waitFor(() => expect(screen.queryByRole("alertdialog")).toBeNull());
  expect(of(sent, "BreakGlass")[0]).toMatchObject({ input: { role: "ADMIN", minutes: 15, reason: "prod is down" } });
});

it("is offered where the viewer is refused", async () => {
  const error = new ApiError("Only an Admin can do this.", { code: "FORBIDDEN", whoCould: ["ben"] });
  await show(<Problem error={error} retry={() => {}} />, { viewer: { breakGlass: ROLES } });
  expect(screen.getByRole("button", { name: "Break glass…" })).toBeDefined();
});

it("shows the time that is left, and ends the role early", async () => {
  const { user, sent } = await show(<BreakGlassTimer />, {
    viewer: { breakGlassRoles: ["ADMIN"], breakGlassUntil: new Date(Date.now() + 90_500).toISOString() },
    answers: { EndBreakGlass: refused("UNAVAILABLE", "Try again.") },
  });
  expect(screen.getByRole("timer").textContent).toMatch(/^Break-glass: Admin, 1 m 30 s left$/);
  await user.click(screen.getByRole("button", { name: "End now" }));
  await vi.waitFor(() => expect(screen.getByRole("alert").textContent).toContain("Try again."));
  expect(of(sent, "EndBreakGlass")).toHaveLength(1);
});
