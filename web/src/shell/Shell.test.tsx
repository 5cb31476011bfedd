import { fireEvent } from "@testing-library/react";
import { useState } from "react";
import { expect, it } from "vitest";
import type { Viewer } from "../session/viewer";
import { screen, show, vi } from "../testing/render";
import { useKeys } from "../ui/keys";
import { Help } from "./Help";
import { Palette } from "./Palette";
import { Places } from "./Places";
import { notices } from "./service";
import { ServiceNotice } from "./ServiceBanner";

const nothing = (): void => {};

function Page() {
  const [open, setOpen] = useState(false);
  useKeys({ x: { does: "Select the row", run: () => {} }, "?": { does: "Keys", run: () => setOpen(true) } });
  return open ? <Help close={() => setOpen(false)} /> : <p>page</p>;
}

it("lists the keys of the page, and turns single keys off", async () => {
  const { user } = await show(<Page />);
  await user.keyboard("?");
  expect(screen.getByText("Select the row").parentElement?.textContent).toBe("xSelect the row");
  await user.click(screen.getByRole("checkbox", { name: /Single-key shortcuts/ }));
  expect(localStorage.getItem("dvt.keys")).toBe("off");
});

it("finds pages, and runs by the start of their id, and goes there by keys", async () => {
  const close = vi.fn<() => void>();
  const { user, path } = await show(<Palette close={close} help={nothing} setTheme={nothing} setZone={nothing} />, {
    answers: { Runs: { runs: { edges: [], pageInfo: { hasNextPage: false, endCursor: null } } } },
  });
  const input = screen.getByRole("combobox");
  await user.type(input, "audit");
  expect(screen.getAllByRole("option").map((option) => option.textContent)).toEqual(["Go to Auditg a"]);
  await user.keyboard("{Enter}");
  expect(close).toHaveBeenCalledOnce();
  await vi.waitFor(() => expect(path()).toBe("/audit"));
});

it("leaves keys alone that are typed into an editor in a shadow root", async () => {
  const { container } = await show(<Page />);
  const host = container.appendChild(document.createElement("div"));
  const field = host.attachShadow({ mode: "open" }).appendChild(document.createElement("textarea"));
  fireEvent(field, new KeyboardEvent("keydown", { key: "?", bubbles: true, composed: true, cancelable: true }));
  expect(screen.queryByText("Select the row")).toBeNull();
  fireEvent.keyDown(host, { key: "?" });
  expect(screen.getByText("Select the row")).toBeDefined();
});

const NO_RUNS = { runs: { edges: [], pageInfo: { hasNextPage: false, endCursor: null } } };
const NIGHTLY = { planId: "nightly", projectId: "shop", environmentId: "dev", runs: [{ runId: "r9" }] };

function palette(answers: Record<string, unknown> = {}) {
  return show(<Palette close={nothing} help={nothing} setTheme={nothing} setZone={nothing} />, {
    answers: { Runs: NO_RUNS, ...answers },
  });
}

function options(): string[] {
  return screen.getAllByRole("option").map(({ textContent }) => textContent);
}

it("finds plans with what can be done with them, and the saved views", async () => {
  const view = { viewId: "v1", yours: true, owner: "ana", projectId: null, name: "Nights", query: "plan:nightly" };
  const { user, path, search } = await palette({
    PalettePlans: { plans: { edges: [{ node: NIGHTLY }] } },
    SavedViews: { savedViews: [view] },
  });
  await user.type(screen.getByRole("combobox"), "nigh");
  await vi.waitFor(() =>
    expect(options()).toEqual([
      "Open plan nightlyshop / dev",
      "Start plan nightly…shop / dev",
      "View Nightsplan:nightly",
    ]),
  );
  await user.keyboard("{ArrowDown}{Enter}");
  await vi.waitFor(() => expect([path(), search()]).toEqual(["/start", { from: "r9", project: "shop", env: "dev" }]));
});

it.each([
  ["home", "Go to Attention (home)g n"],
  ["compare", "Go to Compare two runsg c"],
  ["graphiql", "Go to API explorer (GraphiQL)"],
  ["api ref", "Go to API reference"],
  ["error", "Go to Error codes"],
  ["help", "Help: keys?"],
  ["sign", "Sign out"],
  ["token", "Go to Admin: Tokens"],
  ["policy", "Go to Admin: Policy"],
  ["quotas", "Go to Admin: Quotas"],
  ["service", "Go to Admin: Service"],
  ["retention", "Go to Admin: Retention"],
  ["erasure", "Go to Admin: Erasure"],
  ["share", "Go to Admin: Share links (service)"],
  ["freeze", "Go to Admin: Freeze or unfreeze (service)"],
])("finds %s", async (typed, word) => {
  const { user } = await palette();
  await user.type(screen.getByRole("combobox"), typed);
  expect(options()).toContain(word);
});

it("narrows the page to a project and an environment, and marks production", async () => {
  const viewer = {
    tenantId: "acme",
    grants: [],
    places: [
      { projectId: "shop", environmentId: "prod" },
      { projectId: "ads", environmentId: "dev" },
    ],
  } as unknown as Viewer;
  const { search } = await show(<Places viewer={viewer} />, { path: "/runs" });
  fireEvent.change(screen.getByRole("combobox", { name: "Environment" }), { target: { value: "prod" } });
  await vi.waitFor(() => expect(search()).toMatchObject({ env: "prod" }));
  await vi.waitFor(() => expect(screen.getByRole("combobox", { name: "Environment" }).dataset["band"]).toBe("true"));
});

it("says why nothing new starts, and what still works", async () => {
  const [notice] = notices({
    mode: "READ_ONLY",
    modeReason: "the store is moved",
    modeSince: null,
    frozen: false,
    frozenReason: null,
    frozenSince: null,
    degraded: false,
  });
  if (!notice) throw new Error("there is no notice");
  await show(<ServiceNotice notice={notice} />);
  expect(screen.getByRole("status").textContent).toMatch(
    /^dvt is read-only: no new run starts\. Runs in progress continue.*Reason: the store is moved\./,
  );
});
