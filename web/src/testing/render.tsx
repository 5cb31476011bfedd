// Renders a component as it stands in the page: with a run, the viewer, the actions, a router and a server that
// answers.
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  Outlet,
  RouterProvider,
} from "@tanstack/react-router";
import { render, screen } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import type { ReactNode } from "react";
import { vi } from "vitest";
import { type RunActions, RunActionsContext } from "../actions/context";
import type { AvailableActions } from "../actions/useAvailability";
import { RunContext } from "../runstate/context";
import type { RunStore } from "../runstate/store";
import { NOBODY, ViewerContext, type ViewerInfo } from "../session/viewer";
import { available, header, RUN, SEQ, store } from "./fixtures";

export interface Sent {
  name: string;
  variables: Record<string, unknown>;
}

interface Fixture {
  /** The run that is shown. */
  run?: RunStore;
  actions?: Partial<AvailableActions>;
  act?: RunActions["act"];
  menu?: () => void;
  viewer?: Partial<ViewerInfo>;
  /** The data of each operation by its name, or what gives it, and each file by its address. An `errors` member is a refusal. */
  answers?: Record<string, unknown>;
  path?: string;
}

export const AVAILABLE: AvailableActions = {
  basedOn: SEQ,
  run: new Map([["PAUSE", available("PAUSE", { strength: "REVERSIBLE" })]]),
  step: () => new Map([["RETRY_STEP", available("RETRY_STEP")] as const]),
  queue: null,
  approval: null,
  causeLine: null,
  lastGreen: null,
  tasks: [],
  task: () => undefined,
};

/** What pages ask beside their subject, and what most tests say nothing about. */
const CALM: Record<string, unknown> = {
  Alerts: { alerts: { pageInfo: { hasNextPage: false }, edges: [] } },
  RunIncidents: { incidents: { edges: [] } },
  RunCauses: { run: { diagnosis: [] } },
};

/** Answers every request to the API, and gives the list of those that were sent. */
export function serve(answers: Record<string, unknown>): Sent[] {
  const sent: Sent[] = [];
  vi.stubGlobal("fetch", (address: string, { body = "{}" }: { body?: string } = {}) => {
    if (address in answers) return Promise.resolve(Response.json(answers[address]));
    const { query = "", variables = {} } = JSON.parse(body) as { query?: string; variables?: Sent["variables"] };
    const name = /(?:query|mutation|subscription) (\w+)/.exec(query)?.[1] ?? "";
    sent.push({ name, variables });
    const found = answers[name] ?? CALM[name];
    const answer: unknown = typeof found === "function" ? (found as (of: unknown) => unknown)(variables) : found;
    const failed = typeof answer === "object" && answer !== null && "errors" in answer;
    return Promise.resolve(Response.json(failed ? answer : { data: answer ?? {} }));
  });
  return sent;
}

/** A refusal as the API writes it. */
export function refused(code: string, message: string, extensions: Record<string, unknown> = {}): unknown {
  return { errors: [{ message, extensions: { code, ...extensions } }] };
}

export async function show(children: ReactNode, fixture: Fixture = {}) {
  const { run = store(header()), act = vi.fn<RunActions["act"]>(), menu = vi.fn<() => void>() } = fixture;
  const { actions, viewer, answers = {}, path = `/runs/${RUN}` } = fixture;
  const sent = serve(answers);
  const root = createRootRoute({ component: Outlet });
  const component = (): ReactNode => (
    <ViewerContext value={{ ...NOBODY, principal: "ana", tenantId: "acme", ...viewer }}>
      <RunContext value={run}>
        <RunActionsContext value={{ actions: { ...AVAILABLE, ...actions }, act, menu }}>{children}</RunActionsContext>
      </RunContext>
    </ViewerContext>
  );
  const routes = ["/runs/$runId", "/$"].map((to) => createRoute({ getParentRoute: () => root, path: to, component }));
  const router = createRouter({
    routeTree: root.addChildren(routes),
    history: createMemoryHistory({ initialEntries: [path] }),
  });
  await router.load();
  const view = render(<RouterProvider router={router as never} />);
  await vi.waitFor(() => {
    if (view.container.childElementCount === 0 && document.querySelector("dialog") === null)
      throw new Error("nothing is shown yet");
  });
  return {
    ...view,
    user: userEvent.setup(),
    act,
    menu,
    sent,
    /** The search parameters of the address. */
    search: (): Record<string, unknown> => router.state.location.search,
    path: (): string => router.state.location.pathname,
  };
}

/** What was sent of one operation. */
export function of(sent: readonly Sent[], name: string): Sent["variables"][] {
  return sent.filter((request) => request.name === name).map(({ variables }) => variables);
}

/** The accessible description of an element, which says why it cannot be used. */
export function description(element: Element): string {
  const ids = element.getAttribute("aria-describedby")?.split(" ") ?? [];
  return ids.map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
}

export { screen, vi };
