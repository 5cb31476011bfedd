import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { Problem } from "../page/Problem";
import { ApiError } from "../api/error";
import { BreakGlassButton } from "./BreakGlass";
import { Gate } from "./MayNot";

const ROLES = [{ role: "ADMIN", maxMinutes: 30, actions: ["SET_POLICY"] } as const];

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

const refusal = (action: string) =>
  new ApiError("You need another role.", { code: "FORBIDDEN", denial: { action, whoCould: ["ben"] } });

it("is offered where the viewer is refused", async () => {
  await show(<Problem error={refusal("SET_POLICY")} retry={() => {}} />, { viewer: { breakGlass: ROLES } });
  expect(screen.getByRole("button", { name: "Break glass…" })).toBeDefined();
});

const gate = (action: "SET_POLICY" | "DEBUG") => (
  <Gate action={action} title="Deliveries">
    page
  </Gate>
);

it("is not offered where the role that the viewer may take does not give the right", async () => {
  const answers = {
    RightHolders: { rightHolders: [{ action: "DEBUG", needs: "You need SRE.", names: [], more: false }] },
  };
  const { unmount } = await show(gate("DEBUG"), { viewer: { breakGlass: ROLES }, answers });
  expect(screen.getByRole("heading", { name: "Deliveries" })).toBeDefined();
  expect(screen.queryByRole("button")).toBeNull();
  unmount();
  await show(gate("SET_POLICY"), { viewer: { breakGlass: ROLES }, answers });
  expect(screen.getByRole("button", { name: "Break glass…" })).toBeDefined();
  await show(<Problem error={refusal("DEBUG")} retry={() => {}} />, { viewer: { breakGlass: ROLES } });
  expect(screen.getAllByRole("button")).toHaveLength(1);
});
