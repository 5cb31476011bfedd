import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { ServicePanel } from "./ServicePanel";

const SERVICE = {
  mode: "NORMAL",
  modeReason: null,
  modeSince: null,
  frozen: false,
  frozenReason: null,
  frozenSince: null,
  degraded: false,
  retryAfterMs: null,
  activeRuns: null,
  shareLinkHours: 0,
};
const FROZEN = {
  no: 7,
  id: "x",
  row: { at: "2026-11-20T03:00:00Z", actor: "sid", reason: "month end", detail: '{"frozen":true}' },
};
const CHANGE = {
  action: "FREEZE_TENANT",
  requestId: "ui-7",
  actor: "ana",
  at: new Date().toISOString(),
  version: 5,
  versionBefore: 4,
};

it("shows the receipt that the server answered: what, versions, who, and its record in the audit", async () => {
  const { user, sent } = await show(<ServicePanel />, {
    viewer: { actions: new Set(["FREEZE_TENANT", "READ_AUDIT"]) },
    answers: {
      Service: { service: SERVICE },
      Audit: { audit: { edges: [{ node: FROZEN }] } },
      RightHolders: { rightHolders: [{ action: "SET_ENGINE_MODE", names: ["sid"], more: false }] },
      Freeze: { freezeTenant: { service: { ...SERVICE, frozen: true }, change: CHANGE } },
    },
  });
  const history = await screen.findByRole("region", { name: "Who froze and unfroze the tenant" });
  expect(history.textContent).toContain("Frozesid");
  expect(history.textContent).toContain("month end");
  await user.click(await screen.findByRole("button", { name: "Freeze the tenant…" }));
  await user.type(screen.getByLabelText(/^Reason/), "leak");
  await user.click(screen.getByRole("button", { name: "Freeze the tenant" }));
  const line = await vi.waitFor(() => {
    const found = document.querySelector('[data-done="freeze"]');
    if (!found?.textContent) throw new Error("no receipt yet");
    return found;
  });
  expect(line.textContent).toMatch(/Froze the tenant: version 4 → version 5.*by ana/);
  const links = [...line.querySelectorAll("a")].map((link) => link.getAttribute("href"));
  expect(links, "the page shows the effect itself").not.toContain("/admin/service");
  const audit = new URL(links.find((href) => href?.startsWith("/audit")) ?? "", "http://dvt").searchParams;
  expect([audit.get("action"), audit.get("request")]).toEqual(["FREEZE_TENANT", "ui-7"]);
  expect(of(sent, "Freeze")).toHaveLength(1);
  expect(screen.getByText(/You need the SRE role to change the mode\. Who can do this: sid\./)).toBeDefined();
});

it("reads the history again until the freeze that was just made is recorded", async () => {
  let reads = 0;
  await show(<ServicePanel />, {
    viewer: { actions: new Set(["FREEZE_TENANT", "READ_AUDIT"]) },
    answers: {
      Service: { service: { ...SERVICE, frozen: true, frozenSince: FROZEN.row.at } },
      RightHolders: { rightHolders: [] },
      Audit: () => ({ audit: { edges: ++reads <= 3 ? [] : [{ node: FROZEN }] } }),
    },
  });
  await vi.waitFor(() => expect(reads).toBeGreaterThan(3), { timeout: 4_500 });
  const history = await screen.findByRole("region", { name: "Who froze and unfroze the tenant" });
  expect(history.textContent).toContain("month end");
});

it("asks to type the mode that stops all tenants, and says how many runs are active", async () => {
  const { user, sent } = await show(<ServicePanel />, {
    viewer: { actions: new Set(["SET_ENGINE_MODE", "FREEZE_TENANT"]) },
    answers: {
      Service: { service: { ...SERVICE, activeRuns: 8 } },
      RightHolders: { rightHolders: [{ action: "SHARE_LINKS", names: ["sid"], more: false }] },
      SetMode: {
        setEngineMode: { service: { ...SERVICE, mode: "READ_ONLY" }, change: { ...CHANGE, versionBefore: 0 } },
      },
    },
  });
  await user.click(await screen.findByRole("button", { name: "Set to Read-only…" }));
  const dialog = screen.getByRole("alertdialog");
  expect(dialog.textContent).toContain("all tenants");
  expect(dialog.textContent).toContain("8 runs are active");
  await user.type(screen.getByLabelText(/^Reason/), "release");
  await user.click(screen.getByRole("button", { name: "Set to Read-only" }));
  expect(of(sent, "SetMode")).toHaveLength(0);
  await user.type(screen.getByLabelText(/^Type/), "Read-only");
  await user.click(screen.getByRole("button", { name: "Set to Read-only" }));
  await vi.waitFor(() => expect(of(sent, "SetMode")).toHaveLength(1));
  await vi.waitFor(() => expect(document.querySelector('[data-done="mode"]')?.textContent).not.toContain("version"));
});
