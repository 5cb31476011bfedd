import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { FirstSteps } from "./FirstSteps";

it("offers three ways to begin to a person who may start runs and create tokens", async () => {
  await show(<FirstSteps />, { viewer: { actions: new Set(["START", "CREATE_TOKEN"] as const) } });
  expect(screen.getAllByRole("listitem")).toHaveLength(3);
});

it("gives a person who may not create tokens a way that works: their own of dvt dev, or whom to ask", async () => {
  const actions = new Set(["START"] as const);
  const answers = { RightHolders: { rightHolders: [{ action: "CREATE_TOKEN", names: ["dev-admin"], more: 0 }] } };
  const devPrincipals = [{ principal: "ana", tenantId: "acme", roles: [] }] as never;
  const { unmount } = await show(<FirstSteps />, { viewer: { actions, devPrincipals }, answers });
  expect(document.body.textContent).toContain("export DVT_TOKEN=$(dvt dev token ana)");
  expect(document.body.textContent).not.toContain("under Admin");
  unmount();
  await show(<FirstSteps />, { viewer: { actions }, answers });
  expect(document.body.textContent).toContain("Ask for a token");
  expect(document.body.textContent).not.toContain("under Admin");
  await vi.waitFor(() => expect(document.body.textContent).toContain("dev-admin"));
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
