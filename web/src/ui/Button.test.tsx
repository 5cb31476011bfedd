import { expect, it } from "vitest";
import { description, screen, show, vi } from "../testing/render";
import { Button } from "./Button";

it("stays focusable when it is refused, says why, and does nothing", async () => {
  const onClick = vi.fn<() => void>();
  const { user } = await show(
    <Button refusal="The run has ended." onClick={onClick}>
      Pause
    </Button>,
  );
  const button = screen.getByRole("button", { name: "Pause" });
  await user.tab();
  expect(document.activeElement, "Tab reaches it").toBe(button);
  await user.click(button);
  await user.keyboard("{Enter}");
  expect(onClick).not.toHaveBeenCalled();
  expect(button.getAttribute("aria-disabled")).toBe("true");
  expect(description(button)).toBe("The run has ended.");
});

it("names its key and its pressed state, and runs its action", async () => {
  const onClick = vi.fn<() => void>();
  const { user } = await show(
    <Button shortcut="F" pressed onClick={onClick}>
      Follow
    </Button>,
  );
  const button = screen.getByRole("button", { name: "Follow", pressed: true });
  expect(button.getAttribute("aria-keyshortcuts")).toBe("F");
  await user.click(button);
  expect(onClick).toHaveBeenCalledOnce();
});

it("says in a tooltip what an icon means", async () => {
  await show(<Button label="Wrap">w</Button>);
  expect(screen.getByRole("button", { name: "Wrap" }).title).toBe("Wrap");
});

it("keeps the reason of a refusal in the window", async () => {
  const { user } = await show(<Button refusal="The tenant is frozen until the month end is closed.">Start run</Button>);
  const tip = screen.getByRole("tooltip", { hidden: true });
  vi.spyOn(tip, "getBoundingClientRect").mockReturnValue(new DOMRect(-180, 0, 320, 40));
  await user.hover(screen.getByRole("button", { name: "Start run" }));
  expect(tip.style.getPropertyValue("translate"), "it began 180 px left of the window").toBe("188px");
});
