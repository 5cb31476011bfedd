import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { CopyAs } from "./CopyAs";

it("copies each form, and says so", async () => {
  const { user } = await show(
    <div>
      page <CopyAs subject={{ of: "run", runId: "7f3a" }} />
    </div>,
  );
  await user.click(await screen.findByRole("button", { name: "Copy as CLI" }));
  expect(await navigator.clipboard.readText()).toBe("dvt run show 7f3a");
  await vi.waitFor(() => expect(screen.getByText("Copied as CLI")).toBeDefined());
});
