import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { Seals } from "./Seals";

it("says that records are left out, and shows them", async () => {
  const change = vi.fn<(shown: boolean) => void>();
  const { user } = await show(<Seals shown={false} show={change} />);
  expect(document.body.textContent).toContain("numbers are missing in this list");
  await user.click(screen.getByRole("button", { name: "Show them" }));
  expect(change).toHaveBeenCalledWith(true);
});
