// Links to the pages of a plan and of its steps.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

/** A plan: its id in one project and environment. */
export interface PlanId {
  projectId: string;
  environmentId: string;
  planId: string;
}

interface Props {
  of: PlanId;
  children: ReactNode;
  className?: string | undefined;
}

export function PlanLink({ of, children, className }: Props) {
  return (
    <Link
      to="/plans/$planId"
      params={{ planId: of.planId }}
      search={{ project: of.projectId, env: of.environmentId }}
      className={className}
    >
      {children}
    </Link>
  );
}

export function StepLink({ of, stepId, children, className, label }: Props & { stepId: string; label?: string }) {
  return (
    <Link
      to="/plans/$planId/steps/$stepId"
      params={{ planId: of.planId, stepId }}
      search={{ project: of.projectId, env: of.environmentId }}
      className={className}
      aria-label={label}
    >
      {children}
    </Link>
  );
}
