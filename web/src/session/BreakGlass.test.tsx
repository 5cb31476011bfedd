import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { Problem } from "../page/Problem";
import { ApiError } from "../api/error";
import { BreakGlassButton } from "./BreakGlass";

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
  const take = await screen.findByRole("button", { name: "Take the Admin role" });
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
