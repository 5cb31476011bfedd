import type { DestinationFieldsFragment } from "../api/gen/graphql";

export type Destination = DestinationFieldsFragment;

/** It answers, and every message so far became a dead letter. */
export function refusesAll({ state, lastSentAt, deadLetters }: Destination): boolean {
  return state === "SENDING" && lastSentAt === null && deadLetters > 0;
}

/** Messages for it wait or become dead letters, and none arrives. A person who disabled it knows that. */
export function getsNothing(destination: Destination): boolean {
  const { state, disabledBy } = destination;
  return (
    state === "FAILING" ||
    state === "WAITING" ||
    (state === "DISABLED" && disabledBy === null) ||
    refusesAll(destination)
  );
}
