import type { RunEvent } from "../api/model";
import { m } from "../messages";
import { duration } from "../format/format";

const ACTIONS: Readonly<Record<string, string>> = m.action;
const LONGEST = 200;

/** What an event says, in words from its payload: which action on what and why, which error, how long it took. */
export function summaryOf({ payload }: Pick<RunEvent, "payload">, nameOf: (stepId: string) => string): string {
  const said: Record<string, unknown> = typeof payload === "object" && payload !== null ? { ...payload } : {};
  const word = (name: string): string => {
    const value = said[name];
    return typeof value === "string" ? value : "";
  };
  const took = said["durationMs"];
  const signal = word("signalType");
  const step = word("stepId");
  const reason = word("reason");
  const error = word("errorCode");
  const parts = [
    signal && [ACTIONS[signal] ?? signal, step && nameOf(step)].filter((part) => part !== "").join(": "),
    word("code"),
    error && [error, firstLine(word("errorMessage"))].filter((part) => part !== "").join(": "),
    word("reasonCode") && (m.events.skipped[word("reasonCode")] ?? word("reasonCode")),
    reason && `“${reason}”`,
    error === "" && typeof took === "number" && took > 0 ? m.events.took(duration(took)) : "",
  ];
  return parts.filter((part) => part !== "").join(" · ");
}

function firstLine(text: string): string {
  const [line = ""] = text.trim().split("\n", 1);
  return line.length <= LONGEST ? line : `${line.slice(0, LONGEST)}…`;
}
