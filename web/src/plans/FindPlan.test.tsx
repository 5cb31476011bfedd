import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { FindPlan } from "./FindPlan";

const plan = (planId: string, environmentId: string) => ({ node: { projectId: "shop", environmentId, planId } });

function answers(...edges: unknown[]) {
  return { Plans: { plans: { edges, pageInfo: { endCursor: null, hasNextPage: false } } } };
}

it("opens the plan when it ran in one place; a longer name is another plan", async () => {
  const view = await show(<FindPlan planId="nightly" />, {
    path: "/plans/nightly",
    answers: answers(plan("nightly-full", "dev"), plan("nightly", "prod")),
  });
  await vi.waitFor(() => expect(view.search()).toMatchObject({ project: "shop", env: "prod" }));
  expect(view.path()).toBe("/plans/nightly");
});

it("lists the places when it ran in several", async () => {
  await show(<FindPlan planId="nightly" stepId="load" />, {
    path: "/plans/nightly/steps/load",
    answers: answers(plan("nightly", "dev"), plan("nightly", "prod")),
  });
  await screen.findByRole("heading", { name: "nightly runs in 2 environments. Choose one:" });
  expect(screen.getAllByRole("link").map((link) => link.getAttribute("href"))).toEqual([
    "/plans/nightly/steps/load?project=shop&env=dev",
    "/plans/nightly/steps/load?project=shop&env=prod",
  ]);
});

it("names the plan that is not there", async () => {
  await show(<FindPlan planId="nightli" />, { path: "/plans/nightli", answers: answers() });
  expect(await screen.findByRole("heading", { name: "No run of the plan nightli exists, or you cannot see it." }));
  expect(screen.getByRole("link", { name: "All plans" }).getAttribute("href")).toBe("/plans");
});
