import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { FirstSteps } from "./FirstSteps";

it("offers three ways to begin to a person who may start runs and create tokens", async () => {
  await show(<FirstSteps />, { viewer: { actions: new Set(["START", "CREATE_TOKEN"] as const) } });
  expect(screen.getAllByRole("listitem")).toHaveLength(3);
});

it("tells a person who may not start runs whom to ask, and offers no way that would be refused", async () => {
  const { sent } = await show(<FirstSteps />, {
    viewer: { actions: new Set(["READ"] as const) },
    answers: { RightHolders: { rightHolders: [{ action: "START", names: ["dev-admin"], more: 0 }] } },
  });
  await vi.waitFor(() => expect(document.body.textContent).toContain("dev-admin"));
  expect(of(sent, "RightHolders")).toContainEqual({ actions: ["START"] });
  expect(screen.queryByRole("listitem")).toBeNull();
  expect(document.body.textContent).not.toContain("dvt run start");
});
