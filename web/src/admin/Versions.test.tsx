import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { type Version, Versions } from "./Versions";

interface Limits extends Version {
  maxActive: number;
}

const row = (version: number, maxActive: number, changed: string[]): Limits => ({
  version,
  maxActive,
  changed,
  actor: "ana",
  reason: "because",
  at: "2026-11-21T03:12:07Z",
});

async function history(refusal: string | null = null) {
  const putBack = vi.fn<(version: Limits) => void>();
  const rows = [row(2, 7, ["- maxActive: 5", "+ maxActive: 7"]), row(1, 5, ["+ maxActive: 5"])];
  const pages = {
    rows,
    first: null,
    error: null,
    hasMore: false,
    loading: false,
    asOf: 0,
    more: () => {},
    refresh: () => {},
  };
  const view = await show(
    <Versions
      pages={pages}
      current={2}
      content={({ maxActive }) => ({ maxActive })}
      refusal={refusal}
      putBack={putBack}
      none="none"
    />,
  );
  return { ...view, putBack };
}

it("says what each version changed, the first too", async () => {
  await history();
  const rows = screen.getAllByRole("row");
  expect(rows[1]?.textContent).toContain("- maxActive: 5+ maxActive: 7");
  expect(rows[1]?.textContent).toContain("in force");
  expect(rows[2]?.textContent).toContain("+ maxActive: 5");
});

function versions() {
  return screen.getAllByRole("row").map((line) => line.querySelector("th, td")?.textContent);
}

it("folds the versions that only gave or ended break-glass, but never the one in force", async () => {
  const rows = [row(4, 8, ["+ b"]), row(3, 7, ["+ ben by break-glass"]), row(2, 7, ["+ c"]), row(1, 5, ["+ a"])];
  const pages = {
    rows,
    first: null,
    error: null,
    hasMore: false,
    loading: false,
    asOf: 0,
    more: vi.fn(),
    refresh: vi.fn(),
  };
  const { user } = await show(
    <Versions
      pages={pages}
      current={4}
      content={({ maxActive }) => ({ maxActive })}
      refusal={null}
      putBack={() => {}}
      marked={({ version }) => (version > 2 ? "break-glass" : null)}
      none="none"
    />,
  );
  expect(versions().slice(1)).toEqual(["4 (break-glass)", "2", "1"]);
  expect(document.body.textContent).toContain("1 version of break-glass is not shown.");
  await user.click(screen.getByRole("button", { name: "Show all versions" }));
  expect(versions().slice(1)).toEqual(["4 (break-glass)", "3 (break-glass)", "2", "1"]);
});

it("compares an old version with the one in force, and any two", async () => {
  const { user } = await history();
  await user.click(screen.getByRole("button", { name: "Compare…" }));
  expect(screen.getByRole("region", { name: "1 change" }).textContent).toContain("maxActive: 5 → 7");
  await user.selectOptions(screen.getByLabelText("From version"), "2");
  expect(screen.getByText("The two versions are the same.")).toBeDefined();
});

it("puts an old version back, if the viewer may", async () => {
  const { user, putBack } = await history();
  await user.click(screen.getByRole("button", { name: "Put back version 1" }));
  expect(putBack).toHaveBeenCalledWith(expect.objectContaining({ version: 1 }));
});

it("says why an old version cannot be put back", async () => {
  const { user, putBack } = await history("You need the Admin role.");
  await user.click(screen.getByRole("button", { name: "Put back version 1" }));
  expect(putBack).not.toHaveBeenCalled();
});
