// Several steps of a run at once. They are loaded with the page of a run.
import { count, plural } from "../format/format";

export const several = {
  bar: "Selected steps",
  selected: (n: number) => `${plural(n, "step")} selected`,
  clear: "Clear",
  tooMany: (most: number) => `At most ${most} steps at once.`,
  verbs: {
    RETRY_STEP: (n: number) => `Retry ${plural(n, "step")}`,
    SKIP_STEP: (n: number) => `Skip ${plural(n, "step")}`,
  },
  list: "Chosen steps",
  would: (n: number, of: number) =>
    `If sent now, ${count(n)} of ${plural(of, "step")} would take the signal. Each step is sent by itself and gets its own receipt.`,
  sent: (n: number, of: number) => `${count(n)} of ${plural(of, "step")} sent.`,
  states: {
    asking: "Asking",
    unasked: "Not known",
    refused: "Left out",
    changed: "Changed",
    ready: "Ready to send",
    failed: "Not sent",
  },
  force: "Force: retry also those that the policy would not retry (audited)",
  reason: "One reason for all",
  typeCount: (n: string) => `Type ${n} to confirm`,
  again: (n: number) =>
    `${plural(n, "step was", "steps were")} not sent, or the preview has changed. Read again before you send; your reason is kept.`,
  moved: (n: number) => `${plural(n, "step")} changed after you had read the preview:`,
  wait: (left: string) => `The run takes no more signals for ${left}. Sending continues by itself.`,
  sending: (n: string) => `Sending… ${n}`,
  stop: "Stop sending",
  close: "Close",
};
