/** The plans with their last runs, below what needs attention. The developer of the pages of plans fills it. */
export function Plans() {
  return null;
}
