import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { useState } from "react";
import { Button } from "./Button";
import { Dialog } from "./Dialog";

function cancel(dialog: HTMLElement): void {
  fireEvent(dialog, new Event("cancel", { cancelable: true }));
}

it("is a dialog with its title as name, and an alert dialog when it asks about something final", async () => {
  await show(
    <>
      <Dialog title="Pause nightly" onClose={() => {}}>
        <p>content</p>
      </Dialog>
      <Dialog title="Cancel nightly" alert onClose={() => {}}>
        <p>content</p>
      </Dialog>
    </>,
  );
  expect(screen.getByRole("dialog", { name: "Pause nightly" })).toBeDefined();
  expect(screen.getByRole("alertdialog", { name: "Cancel nightly" })).toBeDefined();
});

it("closes on Esc, but moves the focus to the way back when a field was changed", async () => {
  const onClose = vi.fn<() => void>();
  const { user } = await show(
    <Dialog title="Pause" onClose={onClose}>
      <input aria-label="Reason" />
      <Button back>Back</Button>
    </Dialog>,
  );
  const dialog = screen.getByRole("dialog");
  cancel(dialog);
  expect(onClose).toHaveBeenCalledOnce();
  await user.type(screen.getByLabelText("Reason"), "late");
  cancel(dialog);
  expect(onClose, "it is not closed with what was written").toHaveBeenCalledOnce();
  expect(document.activeElement).toBe(screen.getByRole("button", { name: "Back" }));
  expect(screen.getByRole("alert").textContent).toBe("Press Esc again to discard what you typed.");
  cancel(dialog);
  expect(onClose, "the second Esc discards it").toHaveBeenCalledTimes(2);
});

it("asks again when somebody types after the question", async () => {
  const onClose = vi.fn<() => void>();
  const { user } = await show(
    <Dialog title="Pause" onClose={onClose}>
      <input aria-label="Reason" />
      <Button back>Back</Button>
    </Dialog>,
  );
  const field = screen.getByLabelText("Reason");
  await user.type(field, "late");
  cancel(screen.getByRole("dialog"));
  await user.type(field, "r");
  expect(screen.queryByRole("alert")).toBeNull();
  cancel(screen.getByRole("dialog"));
  expect(onClose).not.toHaveBeenCalled();
});

it("takes Esc before the browser does, which would close it for a moment", async () => {
  const onClose = vi.fn<() => void>();
  const heard = vi.fn<(prevented: boolean) => void>();
  document.addEventListener("keydown", (event) => heard(event.defaultPrevented), { once: true });
  const { user } = await show(
    <Dialog title="Pause" onClose={onClose}>
      <input aria-label="Reason" />
    </Dialog>,
  );
  screen.getByLabelText("Reason").focus();
  await user.keyboard("{Escape}");
  expect(onClose).toHaveBeenCalledOnce();
  expect(heard).toHaveBeenCalledWith(true);
});

function Row() {
  const [state, setState] = useState<"open" | "asked" | "taken">("open");
  return (
    <ul>
      <li>
        <p>{state !== "taken" && <Button onClick={() => setState("asked")}>Acknowledge</Button>}</p>
        {state === "taken" && <p>Taken by ana</p>}
        {state === "asked" && (
          <Dialog title="Acknowledge" onClose={() => setState("open")}>
            <Button onClick={() => setState("taken")}>Send</Button>
            <Button onClick={() => setState("open")}>Back</Button>
          </Dialog>
        )}
      </li>
    </ul>
  );
}

it("gives the focus back to its opener, or to what is left of its place when the opener went", async () => {
  const { user } = await show(<Row />);
  const opener = screen.getByRole("button", { name: "Acknowledge" });
  await user.click(opener);
  await user.click(screen.getByRole("button", { name: "Back" }));
  expect(document.activeElement).toBe(opener);
  await user.click(opener);
  await user.click(screen.getByRole("button", { name: "Send" }));
  await vi.waitFor(() => expect(document.activeElement?.textContent).toBe(""));
  expect(screen.getByRole("listitem").contains(document.activeElement), "within the row").toBe(true);
});
