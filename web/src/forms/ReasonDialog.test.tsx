import { expect, it } from "vitest";
import { ApiError } from "../api/error";
import { screen, show, vi } from "../testing/render";
import { ReasonDialog } from "./ReasonDialog";

type Act = (reason: string) => Promise<void>;

it("acts only with the reason and the word that it asks for, and then closes", async () => {
  const act = vi.fn<Act>(() => Promise.resolve());
  const onClose = vi.fn<() => void>();
  const { user } = await show(
    <ReasonDialog
      title="Redrive all"
      verb="Redrive"
      reason="required"
      word="redrive all"
      danger
      act={act}
      onClose={onClose}
    />,
  );
  expect(screen.getByRole("alertdialog", { name: "Redrive all" })).toBeDefined();
  const button = screen.getByRole<HTMLButtonElement>("button", { name: "Redrive" });
  await user.type(screen.getByLabelText(/^Reason/), "  the receiver is back ");
  expect(button.disabled, "without the word").toBe(true);
  await user.type(screen.getByLabelText("Type redrive all to confirm"), "redrive all");
  expect(button.disabled).toBe(false);
  await user.click(button);
  expect(act).toHaveBeenCalledExactlyOnceWith("the receiver is back");
  await vi.waitFor(() => expect(onClose).toHaveBeenCalledOnce());
});

it("stays open when the server refuses, and says who could", async () => {
  const error = new ApiError("You are Operator.", { code: "FORBIDDEN", denial: { whoCould: ["ana"] } });
  const onClose = vi.fn<() => void>();
  const { user } = await show(
    <ReasonDialog title="Redrive" verb="Send" act={() => Promise.reject(error)} onClose={onClose} />,
  );
  await user.click(screen.getByRole("button", { name: "Send" }));
  await vi.waitFor(() =>
    expect(screen.getByRole("alert").textContent).toBe("You are Operator. FORBIDDEN Who can do this: ana."),
  );
  expect(onClose).not.toHaveBeenCalled();
});
