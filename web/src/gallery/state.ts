import type { ReactNode } from "react";

export interface State {
  name: string;
  show: () => ReactNode;
  /** It lies over the page: it is shown alone. */
  alone?: boolean;
}
