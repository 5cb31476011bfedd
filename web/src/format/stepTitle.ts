/** A step as people know it: its name in the plan, or its id when it has none. The id stands in a title where it helps. */
export function stepTitle(stepId: string, name: string | null | undefined): string {
  return name || stepId;
}
