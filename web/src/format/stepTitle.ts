/** A step as people and commands know it: "Look for a file (need-file)", or its id when it has no other name. */
export function stepTitle(stepId: string, name: string | null | undefined): string {
  return name && name !== stepId ? `${name} (${stepId})` : stepId;
}
