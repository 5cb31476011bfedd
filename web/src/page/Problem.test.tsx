import { act, render } from "@testing-library/react";
import { expect, it } from "vitest";
import { ApiError } from "../api/error";
import { description, screen, show, vi } from "../testing/render";
import { NOBODY, ViewerContext, type ViewerInfo } from "../session/viewer";
import { Problem } from "./Problem";

it("says what is forbidden and who could, without a way to ask again", async () => {
  const error = new ApiError("You may not read the audit of acme.", {
    code: "FORBIDDEN",
    denial: { whoCould: ["ana", "@data-eng"] },
  });
  await show(<Problem error={error} retry={() => {}} />);
  expect(screen.getByText(/You may not read the audit/).textContent).toContain("FORBIDDEN");
  expect(screen.getByText("Who can do this: ana, @data-eng.")).toBeDefined();
  expect(screen.queryByRole("button")).toBeNull();
});

it("asks again when the rights of the viewer have changed", async () => {
  const retry = vi.fn<() => void>();
  const problem = <Problem error={new ApiError("No.", { code: "FORBIDDEN" })} retry={retry} />;
  const as = (viewer: Partial<ViewerInfo>) => <ViewerContext value={{ ...NOBODY, ...viewer }}>{problem}</ViewerContext>;
  const { rerender } = render(as({ policyVersion: 3 }));
  rerender(as({ policyVersion: 3 }));
  expect(retry, "the same rights").not.toHaveBeenCalled();
  rerender(as({ policyVersion: 4, breakGlassRoles: ["ADMIN"] }));
  expect(retry).toHaveBeenCalledOnce();
});

it("offers to retry when the server wants to be asked again, and names the correlation id", async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  const retry = vi.fn<() => void>();
  const error = new ApiError("The store did not answer.", {
    code: "STORE_UNAVAILABLE",
    correlationId: "c0ffee",
    retryAfterMs: 4_000,
  });
  await show(<Problem error={error} retry={retry} />);
  expect(screen.getByRole("alert").textContent).toContain("c0ffee");
  const button = screen.getByRole("button");
  expect(button.textContent).toMatch(/^Retry in \d s$/);
  expect(description(button)).not.toBe("");
  button.click();
  expect(retry, "too soon").not.toHaveBeenCalled();
  act(() => vi.advanceTimersByTime(5_000));
  screen.getByRole("button", { name: "Retry" }).click();
  expect(retry).toHaveBeenCalledOnce();
});
