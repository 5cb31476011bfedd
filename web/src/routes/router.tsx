import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Link,
  notFound,
  redirect,
} from "@tanstack/react-router";
import { m } from "../messages";
import type { Zone } from "../format/format";
import { MissingPart } from "../ui/lazyPart";
import { Notice } from "../ui/Page";
import { Problem } from "../page/Problem";
import { Root } from "./Root";
import { RunsPage } from "./RunsPage";
import {
  ADMIN_PARTS,
  auditSearch,
  bulkSearch,
  dlqSearch,
  inboxSearch,
  parseSearch,
  rootSearch,
  runSearch,
  runsSearch,
  startSearch,
  stringifySearch,
} from "./search";

const root = createRootRoute({
  component: Root,
  validateSearch: (search): { tz?: Zone | undefined } => rootSearch.parse(search),
  // The time zone stays in the address from page to page.
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

const bulks = createRoute({
  getParentRoute: () => root,
  path: "/bulk",
  component: lazyRouteComponent(() => import("./BulksPage"), "BulksPage"),
});
const bulk = createRoute({
  getParentRoute: () => root,
  path: "/bulk/$id",
  validateSearch: (search) => bulkSearch.parse(search),
  component: lazyRouteComponent(() => import("./BulkPage"), "BulkPage"),
});

const start = createRoute({
  getParentRoute: () => root,
  path: "/start",
  validateSearch: (search) => startSearch.parse(search),
  component: lazyRouteComponent(() => import("./StartPage"), "StartPage"),
});

const inbox = createRoute({
  getParentRoute: () => root,
  path: "/inbox",
  validateSearch: (search) => inboxSearch.parse(search),
  component: lazyRouteComponent(() => import("./InboxPage"), "InboxPage"),
});
const queue = createRoute({
  getParentRoute: () => root,
  path: "/queue",
  component: lazyRouteComponent(() => import("./QueuePage"), "QueuePage"),
});
const health = createRoute({
  getParentRoute: () => root,
  path: "/health",
  component: lazyRouteComponent(() => import("./HealthPage"), "HealthPage"),
});

const dlq = createRoute({
  getParentRoute: () => root,
  path: "/dlq",
  validateSearch: (search) => dlqSearch.parse(search),
  component: lazyRouteComponent(() => import("./DeadLettersPage"), "DeadLettersPage"),
});

const audit = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  validateSearch: (search) => auditSearch.parse(search),
  component: lazyRouteComponent(() => import("./AuditPage"), "AuditPage"),
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
  component: lazyRouteComponent(() => import("./AdminPage"), "AdminPage"),
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
    bulks,
    bulk,
    start,
    inbox,
    queue,
    dlq,
    audit,
    admin,
    adminIndex,
    health,
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
    /** The page was opened by a dialog that is gone. */
    sent?: boolean;
  }
  interface Register {
    router: typeof router;
  }
}
