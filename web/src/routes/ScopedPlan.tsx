// The pages of a plan and of its step. An address without a scope, as people type it, is completed first.
import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { FindPlan } from "../plans/FindPlan";
import { PlanPage } from "./PlanPage";
import { PlanStepPage } from "./PlanStepPage";

const planRoute = getRouteApi("/plans/$planId");
const stepRoute = getRouteApi("/plans/$planId/steps/$stepId");

export function ScopedPlan(): ReactNode {
  const { planId } = planRoute.useParams();
  const { project, env } = planRoute.useSearch();
  return project === undefined || env === undefined ? <FindPlan planId={planId} /> : <PlanPage />;
}

export function ScopedPlanStep(): ReactNode {
  const { planId, stepId } = stepRoute.useParams();
  const { project, env } = stepRoute.useSearch();
  return project === undefined || env === undefined ? <FindPlan planId={planId} stepId={stepId} /> : <PlanStepPage />;
}
