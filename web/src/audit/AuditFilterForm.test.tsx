import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { AuditFilterForm, type AuditSearch, criteria } from "./AuditFilterForm";

it("sends what was typed, without spaces and empty fields, and suggests actions", async () => {
  const find = vi.fn<(search: AuditSearch) => void>();
  const { user } = await show(<AuditFilterForm search={{ actor: "ana" }} find={find} />);
  await user.type(screen.getByLabelText("Action"), " retry step ");
  await user.type(screen.getByLabelText("Run (id or its start)"), "7f3a9c12");
  await user.click(screen.getByRole("button", { name: "Find" }));
  expect(find).toHaveBeenCalledWith({ actor: "ana", action: "retry step", run: "7f3a9c12" });
  const options = [...document.querySelectorAll("datalist option")].map((option) => option.getAttribute("value"));
  expect(options).toContain("emergency stop");
});

it("says in words what is searched for", () => {
  expect(criteria({ run: "7f3a", outcome: "DENIED", action: "retry" })).toBe(
    "action contains “retry”, result is Denied, run begins with 7f3a",
  );
  expect(criteria({})).toBe("");
});

it("marks a date that it does not understand, and does not search without it", async () => {
  const find = vi.fn<(search: AuditSearch) => void>();
  const { user } = await show(<AuditFilterForm search={{}} find={find} />);
  const from = screen.getByLabelText("From");
  await user.type(from, "yesterdy");
  await user.click(screen.getByRole("button", { name: "Find" }));
  expect(find).not.toHaveBeenCalled();
  expect(from.getAttribute("aria-invalid")).toBe("true");
  expect(screen.getByRole("alert").textContent).toBe("Not a date. Use 2026-11-21, today or -2h.");
  await user.clear(from);
  await user.type(from, "-2h");
  await user.click(screen.getByRole("button", { name: "Find" }));
  expect(find).toHaveBeenCalledWith({ from: "-2h" });
});

it("offers what auditors ask most as links, and says which one is shown", async () => {
  await show(<AuditFilterForm search={{ outcome: "DENIED" }} find={() => {}} />);
  const refused = screen.getByRole("link", { name: "Refused" });
  expect(refused.getAttribute("href")).toBe("/audit?outcome=DENIED");
  expect(refused.getAttribute("data-current")).toBe("true");
  expect(screen.getByRole("link", { name: "Emergency stops" }).getAttribute("data-current")).toBeNull();
});

it("is folded on a phone until somebody asks for it or a filter is set", async () => {
  vi.stubGlobal("matchMedia", () => ({ matches: true, addEventListener: () => {}, removeEventListener: () => {} }));
  const { user, unmount } = await show(<AuditFilterForm search={{}} find={() => {}} />);
  expect(screen.queryByLabelText("Who")).toBeNull();
  await user.click(screen.getByRole("button", { name: "Filter the audit…" }));
  expect(screen.getByLabelText("Who")).toBeDefined();
  unmount();
  await show(<AuditFilterForm search={{ actor: "ana" }} find={() => {}} />);
  expect(screen.getByLabelText("Who")).toBeDefined();
});
