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
