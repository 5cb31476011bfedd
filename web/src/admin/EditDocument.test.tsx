import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import { ApiError } from "../api/error";
import { of, screen, show, vi } from "../testing/render";
import { EditDocument, InWords } from "./EditDocument";
import { PolicyForm } from "./PolicyForm";
import { QuotasForm } from "./QuotasForm";
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
  const area = screen.getByRole("textbox", { name: "JSON" });
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
  const area = screen.getByRole<HTMLTextAreaElement>("textbox", { name: "JSON" });
  fireEvent.change(area, { target: { value: '{"maxActive": 0}' } });
  await user.type(screen.getByLabelText(/^Reason/), "x");
  await user.click(screen.getByRole("button", { name: "Save" }));
  await vi.waitFor(() => expect(screen.getByRole("alert").textContent).toContain("at least 1"));
  await vi.waitFor(() => expect(area.value.slice(area.selectionStart, area.selectionEnd)).toBe('"maxActive": 0'));
});

function Preview({ document }: { document: unknown }) {
  const { maxActive } = document as { maxActive: number };
  return <InWords changed={[`+ ${maxActive} active runs`]} warnings={["3 runs are active now."]} error={null} />;
}

it("shows a change in the words of its version, with warnings, before it is saved", async () => {
  await show(
    <EditDocument
      title="Quotas"
      before={{ maxActive: 5 }}
      preview={Preview}
      save={() => Promise.resolve()}
      onClose={() => {}}
    />,
  );
  expect(screen.queryByRole("region", { name: "What this changes" }), "nothing was changed").toBeNull();
  fireEvent.change(screen.getByRole("textbox", { name: "JSON" }), { target: { value: '{"maxActive": 2}' } });
  const effect = screen.getByRole("region", { name: "What this changes" });
  expect(effect.textContent).toContain("+ 2 active runs");
  expect(screen.getByRole("list", { name: "Warnings" }).textContent).toBe("⚠ 3 runs are active now.");
  expect(effect.querySelector("details")?.open, "the JSON is folded").toBe(false);
});

it("shows the limits of the tier in empty fields", async () => {
  await show(
    <QuotasForm
      document={{ tenant: {}, projects: [] }}
      change={() => {}}
      most={{ maxActive: 1_000, maxQueueDepth: 50 }}
    />,
  );
  expect(screen.getByLabelText("Active runs").getAttribute("placeholder")).toBe("1,000 (tier)");
  expect(screen.getByLabelText("Starts per minute").getAttribute("placeholder")).toBeNull();
});

it("takes the start of a run's id, and says what is missing", async () => {
  const edges = [{ node: { runId: "7cf6d6db-1" } }, { node: { runId: "7cf6ffff-2" } }, { node: { runId: "other" } }];
  const { user, sent } = await show(<WhoCan />, {
    viewer: { places: [{ projectId: "shop", environmentId: "dev" }] },
    answers: { WhoCould: { whoCould: ["ana"] }, RunByStart: { runs: { edges } } },
  });
  const field = screen.getByRole("combobox", { name: /^Project.environment/ });
  const ask = async (text: string): Promise<void> => {
    await user.clear(field);
    await user.type(field, text);
    await user.click(screen.getByRole("button", { name: "Show who can" }));
  };
  await ask("7cf6d");
  await vi.waitFor(() => expect(of(sent, "WhoCould")).toEqual([{ action: "RETRY_STEP", runId: "7cf6d6db-1" }]));
  for (const [text, says] of [
    ["7cf6", "Several runs begin with 7cf6."],
    ["beef", "No run begins with beef"],
    ["shop", "shop is a project. Add the environment: shop/dev."],
  ] as const) {
    await ask(text);
    await vi.waitFor(() => expect(screen.getByRole("alert").textContent).toContain(says));
  }
  expect(of(sent, "WhoCould")).toHaveLength(1);
});

it("asks the policy who could do something", async () => {
  const { user, sent } = await show(<WhoCan />, { answers: { WhoCould: { whoCould: ["ana", "ben"] } } });
  await user.type(screen.getByRole("combobox", { name: /^Project.environment/ }), "shop/prod");
  await user.click(screen.getByRole("button", { name: "Show who can" }));
  await vi.waitFor(() => expect(screen.getByRole("status").textContent).toBe("Retry step: ana, ben."));
  expect(of(sent, "WhoCould")).toEqual([{ action: "RETRY_STEP", projectId: "shop", environmentId: "prod" }]);
});

const POLICY = {
  grants: [{ principal: "ana", role: "ADMIN", projectId: "*", environmentId: "*", expiresAt: null }],
  sod: { approve: true, completeManual: true },
  approvals: [],
  breakGlass: [],
  sandbox: [],
};

it("edits a policy by a form, and shows the same document as JSON", async () => {
  const save = vi.fn<Save>(() => Promise.resolve());
  const { user } = await show(
    <EditDocument title="Edit policy" before={POLICY} form={PolicyForm} save={save} onClose={() => {}} />,
  );
  await user.click(screen.getByRole("button", { name: "Add a grant" }));
  const principals = screen.getAllByLabelText("Principal");
  await user.type(principals[1] as HTMLElement, "zoe");
  await user.click(screen.getByRole("button", { name: "Add an approval" }));
  await user.click(screen.getByRole("checkbox", { name: "The requester of a run may not approve it" }));
  await user.click(screen.getByRole("button", { name: "JSON" }));
  const area = screen.getByRole<HTMLTextAreaElement>("textbox", { name: "JSON" });
  expect(JSON.parse(area.value)).toMatchObject({
    grants: [POLICY.grants[0], { principal: "zoe", role: "VIEWER", projectId: "*", environmentId: "*" }],
    approvals: [{ environmentId: "prod", required: 1 }],
    sod: { approve: false },
  });
  fireEvent.change(area, { target: { value: "{" } });
  expect(screen.getByRole("button", { name: "Form" }).getAttribute("aria-disabled")).toBe("true");
  fireEvent.change(area, { target: { value: JSON.stringify({ ...POLICY, grants: [] }) } });
  await user.click(screen.getByRole("button", { name: "Form" }));
  expect(screen.queryByLabelText("Principal")).toBeNull();
  await user.type(screen.getByLabelText("Reason (required)"), "tidy");
  await user.click(screen.getByRole("button", { name: "Save" }));
  await vi.waitFor(() => expect(save.mock.calls[0]?.[0]).toMatchObject({ document: { grants: [] } }));
});

it("edits quotas by a form; an empty field inherits", async () => {
  const save = vi.fn<Save>(() => Promise.resolve());
  const before = { tenant: { maxActive: 5 }, projects: [], strategy: null, ttlMs: 60_000 };
  const { user } = await show(
    <EditDocument title="Edit quotas" before={before} form={QuotasForm} save={save} onClose={() => {}} />,
  );
  await user.clear(screen.getByLabelText("Active runs"));
  fireEvent.change(screen.getByLabelText("Longest wait, in seconds"), { target: { value: "90" } });
  await user.selectOptions(screen.getByLabelText("When a limit is reached"), "Runs are refused");
  await user.type(screen.getByLabelText("Reason (required)"), "tidy");
  await user.click(screen.getByRole("button", { name: "Save" }));
  await vi.waitFor(() =>
    expect(save.mock.calls[0]?.[0]).toMatchObject({
      document: { tenant: { maxActive: null }, strategy: "REJECT", ttlMs: 90_000 },
    }),
  );
});

it("begins with an old version when that is put back", async () => {
  const save = vi.fn<Save>(() => Promise.resolve());
  const { user } = await show(
    <EditDocument
      title="Put back version 1"
      before={{ maxActive: 7 }}
      draft={{ maxActive: 5 }}
      draftReason="Put back version 1"
      save={save}
      onClose={() => {}}
    />,
  );
  expect(screen.getByRole("region", { name: "1 change" }).textContent).toContain("maxActive: 7 → 5");
  await user.click(screen.getByRole("button", { name: "Save" }));
  await vi.waitFor(() =>
    expect(save.mock.calls[0]?.[0]).toMatchObject({ document: { maxActive: 5 }, reason: "Put back version 1" }),
  );
});
