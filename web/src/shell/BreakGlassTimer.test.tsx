import { expect, it } from "vitest";
import { of, refused, screen, show, vi } from "../testing/render";
import { BreakGlassTimer } from "./BreakGlassTimer";

it("shows the time that is left, and ends the role early", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  const { user, sent } = await show(<BreakGlassTimer />, {
    viewer: { breakGlassRoles: ["ADMIN"], breakGlassUntil: new Date(Date.now() + 90_500).toISOString() },
    answers: { EndBreakGlass: refused("UNAVAILABLE", "Try again.") },
  });
  expect(screen.getByRole("timer").textContent).toMatch(/^Admin 1:30$/);
  await user.click(screen.getByRole("button", { name: "End" }));
  await vi.waitFor(() => expect(screen.getByRole("alert").textContent).toContain("Try again."));
  expect(of(sent, "EndBreakGlass")).toHaveLength(1);
});

it("says that the role has ended until somebody closes it, so that the page does not move by itself", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  try {
    await show(<BreakGlassTimer />, {
      viewer: { breakGlassRoles: ["ADMIN"], breakGlassUntil: new Date(Date.now() + 1_500).toISOString() },
    });
    expect(screen.getByRole("timer").textContent).toBe("Admin 0:01");
    vi.setSystemTime(Date.now() + 3_000);
    await vi.waitFor(() =>
      expect(screen.getByRole("status").textContent).toBe("The Admin role by break-glass has ended"),
    );
    screen.getByRole("button", { name: "Close" }).click();
    await vi.waitFor(() => expect(screen.queryByRole("status")).toBeNull());
  } finally {
    vi.useRealTimers();
  }
});

it("is not there for somebody whose role ended before the page was opened", async () => {
  await show(
    <p>
      page <BreakGlassTimer />
    </p>,
    { viewer: { breakGlassRoles: ["ADMIN"], breakGlassUntil: new Date(Date.now() - 1_000).toISOString() } },
  );
  expect(screen.queryByRole("timer")).toBeNull();
  expect(screen.queryByRole("status")).toBeNull();
});
