// Items that wait for people.
import type { Availability } from "../api/model";
import { Decided, type DecidedRun } from "../inbox/Decided";
import { InboxList } from "../inbox/InboxList";
import { toItems } from "../inbox/items";
import { available, NOW, RUN, written } from "../testing/fixtures";
import type { State } from "./state";

const nothing = (): void => {};
const REFUSED: Partial<Availability> = {
  outcome: "REFUSED",
  code: "FORBIDDEN",
  reason: "Who started a run does not approve it.",
  whoCould: ["ben"],
};

const PLACE = { projectId: "shop", environmentId: "prod" };
const APPROVAL = {
  ...PLACE,
  runId: RUN,
  runSeq: 1,
  triggeredBy: "ben",
  createdAt: written(NOW - 900_000),
  plan: { planId: "nightly", planVersion: "1.4.2" },
  approval: {
    required: 2,
    expiresAt: written(NOW + 3_600_000),
    decisions: [{ principal: "eva", decision: "APPROVE" as const, reason: null, at: written(NOW - 60_000) }],
  },
  actions: [{ ...available("APPROVE"), mayReject: true }],
};
const TASK = {
  ...PLACE,
  runId: RUN,
  stepId: "sign_off",
  stepName: "Sign off",
  logicalAttemptId: 1,
  instructions: "Compare the invoice with the ledger, then sign it off.",
  since: written(NOW - 600_000),
  deadline: written(NOW + 600_000),
  token: "t",
  action: available("COMPLETE_MANUAL_STEP"),
};

const APPROVALS = [
  APPROVAL,
  {
    ...APPROVAL,
    runId: `${RUN}2`,
    environmentId: "dev",
    triggeredBy: "ana",
    createdAt: written(NOW - 300_000),
    actions: [{ ...available("APPROVE", REFUSED), mayReject: false }],
  },
];
const TASKS = [
  TASK,
  {
    ...TASK,
    stepName: null,
    stepId: "a_step_with_a_name_that_is_much_longer_than_any_column_of_any_list_here",
    instructions: null,
    deadline: null,
    since: written(NOW - 30_000),
    action: available("COMPLETE_MANUAL_STEP", REFUSED),
  },
];

const DECIDED: DecidedRun = {
  ...PLACE,
  runId: RUN,
  planId: "nightly",
  planVersion: "1.4.2",
  decision: "APPROVE",
  at: written(NOW - 60_000),
  approval: APPROVAL.approval,
};

export function inbox(): State[] {
  return [
    { name: "inbox-items", show: () => <InboxList items={toItems(APPROVALS, TASKS, {})} decide={nothing} /> },
    {
      name: "inbox-decided",
      show: () => (
        <ul>
          <Decided decided={DECIDED} />
        </ul>
      ),
    },
  ];
}
