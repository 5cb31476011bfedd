import { expect, it } from "vitest";
import { ApiError } from "../api/error";
import { screen, show, vi } from "../testing/render";
import { RunRefused } from "./RunRefused";

async function page(code: string, extensions: Record<string, unknown> = {}) {
  const retry = vi.fn<() => void>();
  const error = new ApiError("the server's words", { code, ...extensions });
  return { ...(await show(<RunRefused runId="7f3a" error={error} retry={retry} />)), retry };
}

it("says the same of a run that is missing and of one of another tenant", async () => {
  await page("NOT_FOUND");
  expect(screen.getByText("Run 7f3a does not exist or belongs to another tenant. You are ana @ acme.")).toBeDefined();
  expect(screen.getByRole("link", { name: "All runs" }).getAttribute("href")).toBe("/runs");
});

it("says who could see a run that is forbidden", async () => {
  await page("FORBIDDEN", { denial: { whoCould: ["ben"] } });
  expect(screen.getByText("You may not see this run.")).toBeDefined();
  expect(screen.getByText("Who can do this: ben.")).toBeDefined();
});

it("offers to sign in again, or to retry", async () => {
  const first = await page("TOKEN_EXPIRED");
  expect(screen.getByRole("button", { name: "Sign in again" })).toBeDefined();
  first.unmount();
  const { user, retry } = await page("INTERNAL");
  await user.click(screen.getByRole("button", { name: "Retry" }));
  expect(retry).toHaveBeenCalledOnce();
});
