import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
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
  const { user } = await show(<Page />);
  await user.click(screen.getByRole("button", { name: "Share" }));
  await user.click(await screen.findByRole("button", { name: "Copy as CLI", hidden: true }));
  expect(await navigator.clipboard.readText()).toBe("dvt run show 7f3a");
});
