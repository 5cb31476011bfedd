import type { StepTab } from "../address/views";

/** The part of the address that is about a step. */
export interface StepPlace {
  /** The attempt to show; the latest when null. */
  attempt: number | null;
  tab: StepTab;
  /** A line of its log, and the search text. */
  line: number | null;
  q: string;
  /** The listed statuses of dbt nodes (empty lists all), and the node whose compiled SQL is open. */
  nodes: readonly string[];
  sql: string | null;
  /** The step fills the window. */
  full: boolean;
}

export interface StepMove {
  attempt?: number | undefined;
  tab?: StepTab;
  line?: number | undefined;
  q?: string | undefined;
  nodes?: string[] | undefined;
  sql?: undefined;
  full?: undefined;
}
