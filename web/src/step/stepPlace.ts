import type { StepTab } from "../address/views";

/** What of a step the address names. */
export interface StepPlace {
  /** The attempt to show; the latest when null. */
  attempt: number | null;
  tab: StepTab;
  /** A line of its log, and what is looked for in it. */
  line: number | null;
  q: string;
  /** The statuses of dbt's nodes that are listed, none: all; and the node whose compiled SQL is open. */
  nodes: readonly string[];
  sql: string | null;
}

export interface StepMove {
  attempt?: number | undefined;
  tab?: StepTab;
  line?: number | undefined;
  q?: string | undefined;
  nodes?: string[] | undefined;
  sql?: undefined;
}
