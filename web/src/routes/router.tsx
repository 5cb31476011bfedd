import { createRootRoute, createRoute, createRouter, notFound, redirect } from "@tanstack/react-router";
import type { Sendable } from "../actions/intent";
import type { Zone } from "../format/format";
import { lazyPage } from "./lazyPage";
import { MissingPart } from "../ui/lazyPart";
import { Problem } from "../page/Problem";
import { Root } from "./Root";
import { RunsPage } from "./RunsPage";
import {
  ADMIN_PARTS,
  alertsSearch,
  artifactSearch,
  auditSearch,
  bulkSearch,
  compareSearch,
  dlqSearch,
  incidentsSearch,
  inboxSearch,
  parseSearch,
  planSearch,
  plansSearch,
  rootSearch,
  runSearch,
  readRunsSearch,
  startSearch,
  stringifySearch,
} from "./search";

const root = createRootRoute({
  component: Root,
  validateSearch: (search): { tz?: Zone | undefined } => rootSearch.parse(search),
  // The time zone stays in the address from page to page.
  search: { middlewares: [({ search, next }) => ({ tz: search.tz, ...next(search) })] },
  notFoundComponent: lazyPage(() => import("./NotFound").then((part) => part.NotFound)),
  errorComponent: ({ error, reset }) => <Problem error={error} retry={reset} />,
});

const index = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: lazyPage(() => import("./AttentionPage").then((part) => part.AttentionPage)),
});

const runs = createRoute({
  getParentRoute: () => root,
  path: "/runs",
  validateSearch: readRunsSearch,
  component: RunsPage,
});

const run = createRoute({
  getParentRoute: () => root,
  path: "/runs/$runId",
  validateSearch: (search) => runSearch.parse(search),
  component: lazyPage(() => import("./RunPage").then((part) => part.RunPage)),
});

const artifact = createRoute({
  getParentRoute: () => root,
  path: "/runs/$runId/artifact",
  validateSearch: (search) => artifactSearch.parse(search),
  component: lazyPage(() => import("./ArtifactPage").then((part) => part.ArtifactPage)),
});

const bulks = createRoute({
  getParentRoute: () => root,
  path: "/bulk",
  component: lazyPage(() => import("./BulksPage").then((part) => part.BulksPage)),
});
const bulk = createRoute({
  getParentRoute: () => root,
  path: "/bulk/$id",
  validateSearch: (search) => bulkSearch.parse(search),
  component: lazyPage(() => import("./BulkPage").then((part) => part.BulkPage)),
});

const start = createRoute({
  getParentRoute: () => root,
  path: "/start",
  validateSearch: (search) => startSearch.parse(search),
  component: lazyPage(() => import("./StartPage").then((part) => part.StartPage)),
});

const plans = createRoute({
  getParentRoute: () => root,
  path: "/plans",
  validateSearch: (search) => plansSearch.parse(search),
  component: lazyPage(() => import("./PlansPage").then((part) => part.PlansPage)),
});
const plan = createRoute({
  getParentRoute: () => root,
  path: "/plans/$planId",
  validateSearch: (search) => planSearch.parse(search),
  component: lazyPage(() => import("./ScopedPlan").then((part) => part.ScopedPlan)),
});
const planStep = createRoute({
  getParentRoute: () => root,
  path: "/plans/$planId/steps/$stepId",
  validateSearch: (search) => planSearch.parse(search),
  component: lazyPage(() => import("./ScopedPlan").then((part) => part.ScopedPlanStep)),
});
const compare = createRoute({
  getParentRoute: () => root,
  path: "/compare",
  validateSearch: (search) => compareSearch.parse(search),
  component: lazyPage(() => import("./ComparePage").then((part) => part.ComparePage)),
});

const inbox = createRoute({
  getParentRoute: () => root,
  path: "/inbox",
  validateSearch: (search) => inboxSearch.parse(search),
  component: lazyPage(() => import("./InboxPage").then((part) => part.InboxPage)),
});
const queue = createRoute({
  getParentRoute: () => root,
  path: "/queue",
  component: lazyPage(() => import("./QueuePage").then((part) => part.QueuePage)),
});
const health = createRoute({
  getParentRoute: () => root,
  path: "/health",
  component: lazyPage(() => import("./HealthPage").then((part) => part.HealthPage)),
});

const workers = createRoute({
  getParentRoute: () => root,
  path: "/workers",
  component: lazyPage(() => import("./WorkersPage").then((part) => part.WorkersPage)),
});

const dlq = createRoute({
  getParentRoute: () => root,
  path: "/dlq",
  validateSearch: (search) => dlqSearch.parse(search),
  component: lazyPage(() => import("./DeadLettersPage").then((part) => part.DeadLettersPage)),
});

const audit = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  validateSearch: (search) => auditSearch.parse(search),
  component: lazyPage(() => import("./AuditPage").then((part) => part.AuditPage)),
});

const alerts = createRoute({
  getParentRoute: () => root,
  path: "/alerts",
  validateSearch: (search) => alertsSearch.parse(search),
  component: lazyPage(() => import("./AlertsPage").then((part) => part.AlertsPage)),
});

const incidents = createRoute({
  getParentRoute: () => root,
  path: "/incidents",
  validateSearch: (search) => incidentsSearch.parse(search),
  component: lazyPage(() => import("./IncidentsPage").then((part) => part.IncidentsPage)),
});
const incident = createRoute({
  getParentRoute: () => root,
  path: "/incidents/$incidentId",
  component: lazyPage(() => import("./IncidentPage").then((part) => part.IncidentPage)),
});

const deliveries = createRoute({
  getParentRoute: () => root,
  path: "/deliveries",
  component: lazyPage(() => import("./DeliveriesPage").then((part) => part.DeliveriesPage)),
});
const destination = createRoute({
  getParentRoute: () => root,
  path: "/deliveries/$name",
  component: lazyPage(() => import("./DestinationPage").then((part) => part.DestinationPage)),
});

const explorer = createRoute({
  getParentRoute: () => root,
  path: "/graphiql",
  component: lazyPage(() => import("./ExplorerPage").then((part) => part.ExplorerPage)),
});

const moment = createRoute({
  getParentRoute: () => root,
  path: "/moment/$runId/$signalId",
  loader: async ({ params: { runId, signalId } }) => (await import("./MomentPage")).openMoment(runId, signalId),
  component: lazyPage(() => import("./MomentPage").then((part) => part.MomentPage)),
});

const admin = createRoute({
  getParentRoute: () => root,
  path: "/admin/$part",
  params: {
    parse: ({ part }) => {
      const known = ADMIN_PARTS.find((name) => name === part);
      if (!known) throw notFound();
      return { part: known };
    },
  },
  component: lazyPage(() => import("./AdminPage").then((part) => part.AdminPage)),
});

const adminIndex = createRoute({
  getParentRoute: () => root,
  path: "/admin",
  beforeLoad: () => {
    throw redirect({ to: "/admin/$part", params: { part: "tokens" } });
  },
});

export const router = createRouter({
  routeTree: root.addChildren([
    index,
    runs,
    run,
    artifact,
    bulks,
    bulk,
    start,
    plans,
    plan,
    planStep,
    compare,
    inbox,
    queue,
    dlq,
    audit,
    moment,
    admin,
    adminIndex,
    health,
    workers,
    alerts,
    incidents,
    incident,
    deliveries,
    destination,
    explorer,
  ]),
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  // When the code of a page could not be fetched, the frame around it stays.
  defaultErrorComponent: MissingPart,
});

// Only another page scrolls to its top; other changes of the address move nothing. It is set after the router exists:
// given before, it would make the router restore positions that the browser restores already.
let shown = location.pathname;
router.update({
  ...router.options,
  scrollRestoration: ({ location: { pathname } }) => {
    const another = pathname !== shown;
    shown = pathname;
    return another;
  },
});

declare module "@tanstack/react-router" {
  interface HistoryState {
    /** When the reader asked for the log of the step, which is then scrolled into view. */
    log?: number;
    /** The action of a run whose dialog the page of the run opens. */
    act?: Sendable | undefined;
    /** The page was opened by a dialog that is gone. */
    sent?: boolean;
  }
  interface Register {
    router: typeof router;
  }
}
