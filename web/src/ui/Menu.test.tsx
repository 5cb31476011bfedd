import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { Menu } from "./Menu";

it("offers its items as a menu that arrow keys walk, and runs the chosen one", async () => {
  const open = vi.fn<() => void>();
  const copy = vi.fn<() => void>();
  const { user } = await show(
    <Menu
      label="More for nightly"
      items={[
        { word: "Open", act: open },
        { word: "Copy link", act: copy },
      ]}
    />,
  );
  const button = screen.getByRole("button", { name: "More for nightly" });
  expect(button.getAttribute("aria-haspopup")).toBe("menu");
  const menu = screen.getByRole("menu", { name: "More for nightly", hidden: true });
  // The browser opens a popover by its button; this DOM has none.
  menu.hidePopover = vi.fn<() => void>();
  fireEvent(menu, Object.assign(new Event("toggle"), { newState: "open" }));
  const items = await screen.findAllByRole("menuitem", { hidden: true });
  expect(items.map((item) => item.textContent)).toEqual(["Open", "Copy link"]);
  await vi.waitFor(() => expect(document.activeElement).toBe(items[0]));
  await user.keyboard("{ArrowDown}");
  expect(document.activeElement).toBe(items[1]);
  await user.keyboard("{ArrowDown}");
  expect(document.activeElement, "it goes round").toBe(items[0]);
  await user.click(items[1] as HTMLElement);
  expect(copy).toHaveBeenCalledOnce();
  expect(menu.hidePopover).toHaveBeenCalled();
});
