import { act } from "@testing-library/react";
import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { lazyPage } from "./lazyPage";

/** A page whose code fails to load while dvt is down. */
async function page() {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  const server = { up: false, loads: 0 };
  const Page = lazyPage(() => {
    server.loads += 1;
    return server.up
      ? Promise.resolve(() => <p>The audit</p>)
      : Promise.reject(new TypeError("Failed to fetch dynamically imported module: /assets/AuditPage.js"));
  });
  const reload = vi.spyOn(location, "reload").mockImplementation(() => {});
  await Page.preload(); // as the router does before it shows the page
  await show(<Page />);
  vi.stubGlobal("fetch", () =>
    server.up ? Promise.resolve(Response.json({})) : Promise.reject(new TypeError("down")),
  );
  return { server, reload };
}

it("stays on the page, without a reload, while its code cannot be fetched", async () => {
  const { server, reload } = await page();
  expect(screen.getByRole("alert").textContent).toContain("This page cannot be loaded now");
  expect(screen.getByText(/TypeError/).closest("details")?.open, "the technical detail is folded").toBe(false);
  const before = server.loads;
  await act(() => vi.advanceTimersByTimeAsync(10_000));
  expect(reload).not.toHaveBeenCalled();
  expect(server.loads, "tries while dvt is down").toBe(before);
});

it("opens by itself when dvt answers again", async () => {
  const { server, reload } = await page();
  server.up = true;
  await act(() => vi.advanceTimersByTimeAsync(4_000));
  await vi.waitFor(() => expect(screen.getByText("The audit")).toBeDefined());
  expect(reload).not.toHaveBeenCalled();
});

it("reloads once, and no more, when dvt answers and has the code no longer", async () => {
  const { reload } = await page();
  vi.stubGlobal("fetch", () => Promise.resolve(Response.json({})));
  await act(() => vi.advanceTimersByTimeAsync(10_000));
  expect(reload).toHaveBeenCalledOnce();
});
