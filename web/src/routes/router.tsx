import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Link, redirect } from "@tanstack/react-router";
import { m } from "../messages";
import type { Zone } from "../ui/format";
import { Notice, Problem } from "../ui/Page";
import { Root } from "./Root";
import { RunsPage } from "./RunsPage";
import { parseSearch, rootSearch, runSearch, runsSearch, stringifySearch } from "./search";

const root = createRootRoute({
  component: Root,
  validateSearch: (search): { tz?: Zone | undefined } => rootSearch.parse(search),
  // The time zone goes along from page to page.
  search: { middlewares: [({ search, next }) => ({ tz: search.tz, ...next(search) })] },
  notFoundComponent: () => (
    <Notice title={m.run.gone}>
      <Link to="/runs">{m.run.toRuns}</Link>
    </Notice>
  ),
  errorComponent: ({ error, reset }) => <Problem error={error} retry={reset} />,
});

const index = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/runs", search: {} });
  },
});

const runs = createRoute({
  getParentRoute: () => root,
  path: "/runs",
  validateSearch: (search) => runsSearch.parse(search),
  component: RunsPage,
});

const run = createRoute({
  getParentRoute: () => root,
  path: "/runs/$runId",
  validateSearch: (search) => runSearch.parse(search),
  component: lazyRouteComponent(() => import("./RunPage"), "RunPage"),
});

const start = createRoute({
  getParentRoute: () => root,
  path: "/start",
  component: lazyRouteComponent(() => import("./StartPage"), "StartPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([index, runs, run, start]),
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
