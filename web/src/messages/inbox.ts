// Items that wait for people.
import type { ManualOutcome } from "../api/gen/graphql";
import { plural } from "../format/format";

export const inbox = {
  title: "Inbox",
  waits: (n: number) => `${plural(n, "thing waits", "things wait")} for you`,
  loading: "Loading what waits",
  decide: "Decide",
  parts: { me: "For me", all: "All", done: "Done" },
  kinds: { approval: "Approve", task: "Manual step" },
  yes: { approval: "Approve", task: "Complete" },
  no: { approval: "Decline", task: "Fail" },
  askedBy: (who: string) => `· asked for by ${who}`,
  waitsSince: "waiting since",
  timesOut: "times out",
  none: "Nothing waits for a person in the projects that you may see.",
  noneForMe: "Nothing waits for you.",
  some: (n: number, more: boolean) => (more ? `${n}+` : String(n)),
  othersWait: (n: number) => `${plural(n, "thing waits", "things wait")} for others: see All for why.`,
  noneDone: "You have not completed a step recently.",
  decisions: "Approvals and refusals are in the",
  named: (verb: string, subject: string) => `${verb}: ${subject}`,
  approveMeans: "The run starts when enough people have approved it.",
  rejectMeans: "The run ends as cancelled, for good.",
  outcomeLabel: "Outcome",
  outcome: { SUCCEEDED: "Succeeded", FAILED: "Failed", CANCELLED: "Cancelled" } satisfies Record<ManualOutcome, string>,
};
