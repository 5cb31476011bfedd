import type { RunEvent } from "../api/model";

interface Decision {
  /** The type of the signal, and its step. */
  what: string | null;
  /** The person, or the part of dvt that wrote the event when it names nobody. */
  who: string | null;
  why: string | null;
}

/** The decision that an event records, from its payload. */
export function decisionOf({ payload, emittedBy }: Pick<RunEvent, "payload" | "emittedBy">): Decision {
  const said: Record<string, unknown> = typeof payload === "object" && payload !== null ? { ...payload } : {};
  const word = (name: string): string | null => {
    const value = said[name];
    return typeof value === "string" && value !== "" ? value : null;
  };
  const signal = word("signalType");
  return {
    what: signal && [signal, word("stepId")].filter((part) => part !== null).join(" "),
    who: word("actor") ?? word("principal") ?? emittedBy,
    why: word("reason"),
  };
}
