import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { useCopySubject } from "../copyas/offer";
import { CopiedNotice, Share } from "./Share";

const page = (
  <>
    <Share />
    <CopiedNotice />
  </>
);

it("copies the address and says so", async () => {
  const { user } = await show(page);
  await user.click(screen.getByRole("button", { name: "Copy link", hidden: true }));
  await vi.waitFor(() => expect(screen.getByRole("status").textContent).toBe("Link copied"));
  expect(await navigator.clipboard.readText()).toBe(location.href);
});

it("says when the browser refuses it", async () => {
  const { user } = await show(page);
  const refused = vi.spyOn(navigator.clipboard, "writeText").mockRejectedValue(new Error("no"));
  await user.click(screen.getByRole("button", { name: "Copy link", hidden: true }));
  await vi.waitFor(() => expect(screen.getByRole("status").textContent).toMatch(/could not be copied/));
  refused.mockRestore();
});

function Page() {
  useCopySubject(() => ({ of: "run", runId: "7f3a" }));
  return <Share />;
}

it("offers the request of the page as a command", async () => {
  const { user } = await show(<Page />, { answers: { ShareLinks: { service: { shareLinkHours: 0 } } } });
  await user.click(screen.getByRole("button", { name: "Share" }));
  await user.click(await screen.findByRole("button", { name: "Copy as CLI", hidden: true }));
  expect(await navigator.clipboard.readText()).toBe("dvt run show 7f3a");
});

it("makes a link that shows the status where the tenant permits it, and says what it reveals", async () => {
  const answers = {
    ShareLinks: { service: { shareLinkHours: 24 } },
    ShareRun: { shareRun: { path: "/s/abc.k1.x", expiresAt: "2026-11-28T10:00:00Z" } },
  };
  const { user, sent } = await show(
    <>
      <Page />
      <CopiedNotice />
    </>,
    { answers },
  );
  await user.click(screen.getByRole("button", { name: "Share" }));
  await user.click(await screen.findByRole("button", { name: "Copy a link that shows the status", hidden: true }));
  await vi.waitFor(() => expect(screen.getByText("Link copied")).toBeDefined());
  expect(await navigator.clipboard.readText()).toBe(`${location.origin}/s/abc.k1.x`);
  expect(screen.getByText(/for 24 h, without sign-in/)).toBeDefined();
  expect(of(sent, "ShareRun")[0]).toMatchObject({ input: { runId: "7f3a" } });
});

it("offers no such link where the tenant does not permit it", async () => {
  const { user, sent } = await show(<Page />, { answers: { ShareLinks: { service: { shareLinkHours: 0 } } } });
  await user.click(screen.getByRole("button", { name: "Share" }));
  await vi.waitFor(() => expect(of(sent, "ShareLinks")).toHaveLength(1));
  expect(screen.queryByRole("button", { name: /shows the status/, hidden: true })).toBeNull();
});
