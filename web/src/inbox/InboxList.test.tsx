import { expect, it } from "vitest";
import { ANSWERS, available, header, RUN, SEQ } from "../testing/fixtures";
import { description, screen, show, vi } from "../testing/render";
import { Decide } from "./Decide";
import { InboxList } from "./InboxList";
import type { Approval, Item } from "./items";

const APPROVAL = {
  required: 2,
  expiresAt: new Date(Date.now() + 3_599_000).toISOString(),
  decisions: [{ principal: "eva", decision: "APPROVE" as const, reason: null, at: "2026-11-21T03:00:00Z" }],
};

function item(over: Partial<Item> = {}): Item {
  return {
    key: RUN,
    kind: "approval",
    runId: RUN,
    stepId: null,
    name: "nightly@1.5",
    projectId: "shop",
    environmentId: "prod",
    by: "ana",
    since: Date.now() - 840_000,
    until: null,
    instructions: null,
    refusal: null,
    stuck: false,
    mayReject: true,
    approval: { runSeq: 4, approval: APPROVAL } as Approval,
    task: null,
    ...over,
  };
}

const RUN_REQUEST = {
  run: {
    request: { steps: 60, params: { day: "2026-11-21" } },
    planDiff: { previous: { planVersion: "1.4.2" }, added: 3, removed: 1, changed: 5 },
  },
};

it("offers a yes and a no for each item, or says why the viewer may not decide", async () => {
  const decide = vi.fn<(item: Item, yes: boolean) => void>();
  const mine = item();
  const other = item({
    key: "x",
    kind: "task",
    stepId: "check",
    name: "check",
    approval: null,
    refusal: "Not you.",
    mayReject: false,
  });
  const { user } = await show(<InboxList items={[mine, other]} decide={decide} />, {
    answers: { RunRequest: RUN_REQUEST },
  });
  expect(screen.getAllByRole("listitem")[0]?.textContent).toContain("Approvenightly@1.5 01KAHW3V");
  await user.click(screen.getByRole("button", { name: "Approve: 01KAHW3V" }));
  await user.click(screen.getByRole("button", { name: "Reject: 01KAHW3V" }));
  expect(decide.mock.calls).toEqual([
    [mine, true],
    [mine, false],
  ]);
  const complete = screen.getByRole("button", { name: "Complete: check" });
  expect(description(complete)).toBe("Not you.");
});

it("says on the card, before the decision, when nobody else can give the missing approval", async () => {
  await show(<InboxList items={[item({ stuck: true })]} decide={() => {}} />, { answers: { RunRequest: RUN_REQUEST } });
  expect(screen.getByRole("listitem").textContent).toContain("The run cannot start unless the policy changes.");
});

it("says how many have approved, until when, who requested it, how large it is and what differs", async () => {
  await show(<InboxList items={[item()]} decide={() => {}} />, { answers: { RunRequest: RUN_REQUEST } });
  expect(screen.getByTestId("approvals").textContent).toMatch(/^1 of 2 approvals \(eva\) · cancelled in 59 m /);
  expect(screen.getByRole("listitem").textContent).toContain("requested by ana · waiting for 14 m");
  const change = await screen.findByTestId("plan-change");
  expect(change.textContent).toContain("60 steps · compared with 1.4.2: 3 steps added, 1 removed, 5 changed");
});

const PENDING = {
  __typename: "Run",
  ...header({ status: "PENDING", statusRaw: "PENDING", startedAt: null, rootCause: null, failedSteps: 0 }),
  createdAt: "2026-11-21T03:00:00Z",
};

async function decided(yes: boolean) {
  const view = await show(<Decide item={item()} yes={yes} done={() => {}} close={() => {}} />, {
    answers: {
      RunOpening: { run: PENDING },
      RunWhole: { run: { ...PENDING, steps: [] } },
      Actions: { run: { runSeq: SEQ, actions: [available("APPROVE")], queue: null, approval: APPROVAL } },
      Preview: { preview: ANSWERS.data.preview },
      RunRequest: RUN_REQUEST,
    },
  });
  await screen.findByRole("dialog", { name: /^(Approve|Reject) nightly in PROD/ });
  await screen.findByTestId("preview");
  return view;
}

it("shows what is approved, with its parameters, in the dialog of the run's page", async () => {
  await decided(true);
  const dialog = screen.getByRole("dialog");
  await vi.waitFor(() => expect(dialog.textContent).toContain("1 of 2 approvals (eva)"));
  expect(dialog.textContent).toContain("60 steps · compared with 1.4.2: 3 steps added, 1 removed, 5 changed");
  expect(dialog.textContent).toContain("day2026-11-21");
  expect(screen.getByRole<HTMLInputElement>("radio", { name: /^Approve/ }).checked).toBe(true);
});

it("begins with the decision of the button, and rejects only with a reason", async () => {
  const { user } = await decided(false);
  expect(screen.getByRole<HTMLInputElement>("radio", { name: /^Reject/ }).checked).toBe(true);
  const button = screen.getByRole<HTMLButtonElement>("button", { name: "Reject" });
  expect(button.disabled).toBe(true);
  await user.type(screen.getByLabelText(/^Reason/), "wrong day");
  await vi.waitFor(() => expect(button.disabled).toBe(false));
});

it("offers only the rejection during a freeze, with the reason", async () => {
  const decide = vi.fn<(item: Item, yes: boolean) => void>();
  const frozen = item({ refusal: "The tenant is frozen. The time to approve it goes on." });
  const { user } = await show(<InboxList items={[frozen]} decide={decide} />, { answers: { RunRequest: RUN_REQUEST } });
  expect(screen.getByRole("listitem").textContent).toContain("The time to approve it goes on.");
  expect(screen.getByRole("button", { name: "Approve: 01KAHW3V" }).getAttribute("aria-disabled")).toBe("true");
  await user.click(screen.getByRole("button", { name: "Reject: 01KAHW3V" }));
  expect(decide).toHaveBeenCalledExactlyOnceWith(frozen, false);
});

it("rejects a run of a frozen tenant in the dialog, where the approval is off", async () => {
  const refused = available("APPROVE", { outcome: "REFUSED", code: "TENANT_FROZEN", reason: "The tenant is frozen." });
  const { user } = await show(<Decide item={item()} yes={false} done={() => {}} close={() => {}} />, {
    answers: {
      RunOpening: { run: PENDING },
      RunWhole: { run: { ...PENDING, steps: [] } },
      Actions: { run: { runSeq: SEQ, actions: [{ ...refused, mayReject: true }], queue: null, approval: APPROVAL } },
      Preview: { preview: ANSWERS.data.preview },
      RunRequest: RUN_REQUEST,
    },
  });
  await screen.findByTestId("preview");
  const approve = await screen.findByRole<HTMLInputElement>("radio", { name: /^Approve.*The tenant is frozen/ });
  expect(approve.disabled).toBe(true);
  await user.type(screen.getByLabelText(/^Reason/), "wrong day");
  const button = screen.getByRole<HTMLButtonElement>("button", { name: "Reject" });
  await vi.waitFor(() => expect(button.disabled).toBe(false));
});
