// Deliveries to other systems: the destinations and one of them. They are loaded with their pages.
import type { DeliveryOrderKind, DeliveryOrderState, DestinationKind, DestinationState } from "../api/gen/graphql";
import { count, plural } from "../format/format";

const messages = (n: number): string => plural(n, "message");

export const deliveries = {
  title: "Deliveries",
  says: "The systems that dvt sends events and alerts to. A file of the servers names them.",
  empty:
    "No destination is known: the setting destinations names the file that lists them, and a process with the duty notify reports them.",
  missing: "There is no destination of this name.",
  toAll: "All destinations",
  destination: "Destination",
  kind: "Kind",
  kinds: {
    WEBHOOK: "Webhook",
    PAGERDUTY: "PagerDuty",
    SLACK: "Slack",
    EMAIL: "E-mail",
    SYSLOG: "Syslog",
    UNKNOWN: "Unknown",
  } satisfies Record<DestinationKind, string>,
  state: "State",
  states: {
    SENDING: "Accepts messages",
    WAITING: "Nobody sends",
    FAILING: "Has accepted nothing",
    DISABLED: "Disabled",
    REMOVED: "Removed",
    UNKNOWN: "Unknown",
  } satisfies Record<DestinationState, string>,
  fresh: "Ready",
  refuses: "Refuses every message",
  becameDead: (n: number) => `${messages(n)} became ${n === 1 ? "a dead letter" : "dead letters"}`,
  noMessage: "it has had no message yet",
  last: "the last one",
  since: "since",
  wait: (n: number) => `${messages(n)} ${n === 1 ? "waits" : "wait"}`,
  oldest: "the oldest is from",
  by: (who: string) => `by ${who}`,
  byDvt: "by dvt",
  begins: "When it is enabled it gets what was sent since",
  gets: "Gets:",
  accepted: "Accepted",
  failedTries: "Failed tries",
  dead: "Dead letters",
  dropped: (n: number) => `${count(n)} more dead letters fell out, because 10,000 are kept.`,
  test: "Send a test",
  testing: "The test is under way",
  tested: {
    DONE: "The test was accepted.",
    FAILED: "The test was not accepted:",
    open: "The test is still under way; Orders shows what becomes of it.",
  },
  enable: "Enable",
  disable: "Disable",
  enableOf: (name: string) => `Enable ${name}`,
  disableOf: (name: string) => `Disable ${name}`,
  enableMeans: "The messages that waited are sent in their order, then new ones.",
  disableMeans:
    "Within 5 seconds nothing is sent to it until somebody enables it. Events wait as long as the log has them, changes of alerts for 7 days.",
  replay: "Replay",
  replayOf: (name: string) => `Replay messages to ${name}`,
  replayMeans:
    "Messages are sent again with the same ids, marked as replayed. New messages of other runs do not wait for them.",
  from: (zone: string) => `From (${zone})`,
  until: (zone: string) => `Until (${zone}, empty: now)`,
  topics: "What",
  topic: { all: "Everything that its route selects", events: "Events of runs", alerts: "Alerts" },
  project: "Project (empty: all)",
  counting: "Counting…",
  noRange: "Give the time from which messages are sent again.",
  preview: (n: number, more: boolean) =>
    n === 0
      ? "No message is in this range."
      : more
        ? `More than ${messages(n)} would be sent:`
        : `${messages(n)} would be sent:`,
  range: "to",
  redrive: "Redrive",
  redriveAll: "Redrive all",
  redriveOf: (id: string) => `Redrive the message ${id}`,
  redriveAllOf: (n: number) => `Redrive ${plural(n, "dead letter")}`,
  redriveMeans: "They are sent again with the same ids. Those that are accepted are no longer dead letters.",
  redriveDisabled: "The destination is disabled: they are sent when somebody enables it.",
  noDead: "There is none: it accepted every message, or they still wait.",
  at: "Given up",
  type: "Type",
  run: "Run",
  installation: "the installation",
  tries: "Tries",
  error: "Why",
  content: "Content",
  look: "Look at it",
  contentOf: (id: string) => `The message ${id}`,
  act: "Action",
  orders: "Orders",
  noOrders: "Nobody has asked for a test, a replay or a redrive in the last 30 days.",
  order: "Order",
  orderKinds: { TEST: "Test", REPLAY: "Replay", REDRIVE: "Redrive", UNKNOWN: "Unknown" } satisfies Record<
    DeliveryOrderKind,
    string
  >,
  orderStates: {
    WAITING: "Waits to be taken up",
    RUNNING: "Under way",
    DONE: "Done",
    FAILED: "Failed",
    UNKNOWN: "Unknown",
  } satisfies Record<DeliveryOrderState, string>,
  asked: "Asked by",
  when: "When",
  outcome: "Outcome",
  counts: (all: number, sent: number, failed: number) =>
    `${count(sent)} of ${messages(all)} accepted${failed > 0 ? `, ${count(failed)} not` : ""}`,
  reason: "Reason",
  did: {
    enable: (name: string) => `Enabled ${name}`,
    disable: (name: string) => `Disabled ${name}`,
    replay: (name: string) => `Asked for a replay to ${name}`,
    redrive: (name: string) => `Asked for a redrive to ${name}`,
  },
} as const;
