import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import { ApiError } from "../api/error";
import { of, screen, show, vi } from "../testing/render";
import { EditDocument } from "./EditDocument";
import { WhoCan } from "./WhoCan";

type Save = (change: { document: unknown; reason: string; requestId: string }) => Promise<void>;

it("shows each change, saves the document with a reason, and closes", async () => {
  const save = vi.fn<Save>(() => Promise.resolve());
  const onClose = vi.fn<() => void>();
  const { user } = await show(
    <EditDocument title="Change the quotas" before={{ maxActive: 5 }} save={save} onClose={onClose} />,
  );
  const button = screen.getByRole("button", { name: "Save" });
  expect(button.getAttribute("aria-disabled"), "nothing was changed").toBe("true");
  const area = screen.getByLabelText("The whole document, as JSON");
  fireEvent.change(area, { target: { value: '{"maxActive": 7}' } });
  expect(screen.getByRole("region", { name: "1 change" }).textContent).toContain("maxActive: 5 → 7");
  await user.type(screen.getByLabelText(/^Reason/), "more load");
  await user.click(button);
  await vi.waitFor(() => expect(onClose).toHaveBeenCalledOnce());
  expect(save.mock.calls[0]?.[0]).toMatchObject({ document: { maxActive: 7 }, reason: "more load" });
});

it("selects the part that a violation is about", async () => {
  const error = new ApiError("not valid", {
    code: "BAD_USER_INPUT",
    violations: [{ path: "settings.maxActive", code: "RANGE", message: "at least 1" }],
  });
  const { user } = await show(
    <EditDocument title="Quotas" before={{}} save={() => Promise.reject(error)} onClose={() => {}} />,
  );
  const area = screen.getByLabelText<HTMLTextAreaElement>("The whole document, as JSON");
  fireEvent.change(area, { target: { value: '{"maxActive": 0}' } });
  await user.type(screen.getByLabelText(/^Reason/), "x");
  await user.click(screen.getByRole("button", { name: "Save" }));
  await vi.waitFor(() => expect(screen.getByRole("alert").textContent).toContain("at least 1"));
  expect(area.value.slice(area.selectionStart, area.selectionEnd)).toBe('"maxActive": 0');
});

it("asks the policy who could do something", async () => {
  const { user, sent } = await show(<WhoCan />, { answers: { WhoCould: { whoCould: ["ana", "ben"] } } });
  await user.type(screen.getByRole("combobox", { name: /^On a project/ }), "shop/prod");
  await user.click(screen.getByRole("button", { name: "Ask" }));
  await vi.waitFor(() => expect(screen.getByRole("status").textContent).toBe("Retry step: ana, ben."));
  expect(of(sent, "WhoCould")).toEqual([{ action: "RETRY_STEP", projectId: "shop", environmentId: "prod" }]);
});
