import type { ReactNode } from "react";

export interface State {
  name: string;
  show: () => ReactNode;
  /** The state covers the page, so it is shown alone. */
  alone?: boolean;
}
