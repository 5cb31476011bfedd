import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { Seals } from "./Seals";

it("says that records are left out, and shows them", async () => {
  const { user, search } = await show(<Seals search={{ actor: "ana" }} shown={false} />, { path: "/audit" });
  expect(document.body.textContent).toContain("numbers are missing in this list");
  await user.click(screen.getByRole("link", { name: "Show them" }));
  await vi.waitFor(() => expect(search()).toMatchObject({ actor: "ana", seals: "yes" }));
});
