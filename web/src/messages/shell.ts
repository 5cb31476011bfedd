// The frame around every page.

export const nav = {
  label: "Pages",
  skip: "Skip to content",
  attention: "Attention",
  alerts: "Alerts",
  incidents: "Incidents",
  deliveries: "Deliveries",
  compare: "Compare two runs",
  runs: "Runs",
  plans: "Plans",
  inbox: "Inbox",
  queue: "Queue",
  dlq: "Dead letters",
  audit: "Audit",
  admin: "Admin",
  health: "Health",
  workers: "Workers",
};

export const page = {
  copy: (what: string) => `Copy ${what}`,
  copied: "Copied",
  retryIn: (left: string) => `Retry in ${left}`,
  tooSoon: "The server asks you to wait.",
  missing:
    "dvt did not answer, or this page belongs to an older version of dvt. Reload it when dvt answers; the address keeps your view.",
  reload: "Reload the page",
  notNow: "This page cannot be loaded now",
  notNowMeans: "dvt does not answer. The page opens by itself when dvt answers again.",
  stillDown: "dvt still does not answer.",
  technical: "Technical detail",
  noPageTitle: "No such page",
  noPage: "There is no page at",
  noPageMeans: "The address may be mistyped, or from another version of dvt. These pages exist:",
  docs: "Documentation",
  helpKey: "Press ? for the keys, or search for a page at the top.",
  goTo: "Go to it in the form",
  asOf: "as of",
  more: "Show more",
  refresh: "Refresh",
  nothing: "Nothing here",
  forbidden: "You may not see this",
  discard: "Press Esc again to discard what you typed.",
};

export const keys = {
  next: "Next row",
  previous: "Previous row",
  select: "Select the row",
  selectRange: "Select all from the last selected row to this one",
  clear: "Clear the selection",
  filter: "Filter",
  start: "Start a run",
  newer: "Show the runs that wait above",
  go: (page: string) => `Go to ${page}`,
  copyLink: "Copy a link to this view",
  approve: "Approve or complete",
  decline: "Reject or fail",
};

export const help = {
  title: "Keys",
  everywhere: [
    ["Arrows", "Move through a graph, a table or a menu"],
    ["Enter", "Open the focused item"],
    ["Esc", "Close the open part"],
    ["Tab", "Go to the next part of the page"],
  ] as const,
  note: "Keys never send anything: they navigate or open the dialog of a button. They do nothing while you type.",
  close: "Close",
  paletteKey: /Mac|iPhone|iPad/.test(globalThis.navigator?.platform ?? "") ? "⌘K" : "Ctrl K",
};

export const palette = {
  title: "Go to anything",
  label: "Page, plan, action, step, saved view, or start of a run id",
  none: "Nothing has this name.",
  home: "Attention (home)",
  openPlan: (plan: string) => `Open plan ${plan}`,
  startPlan: (plan: string) => `Start plan ${plan}…`,
  view: (name: string) => `View ${name}`,
  go: (page: string) => `Go to ${page}`,
  step: (name: string) => `Step ${name}`,
  run: (status: string, plan: string) => `${plan} · ${status}`,
  failed: "Failed runs",
  help: "Help: keys",
  bulks: "Bulk actions",
  adminPart: (name: string) => `Go to Admin: ${name}`,
  shareLinks: "Share links (service)",
  freeze: "Freeze or unfreeze (service)",
  theme: (name: string) => `Theme: ${name}`,
  zone: (name: string) => `Times in ${name}`,
  keysOff: "Turn single keys off",
  keysOn: "Turn single keys on",
};

export const place = {
  label: "Scope",
  tenant: "Tenant",
  project: "Project",
  environment: "Environment",
  allProjects: "All projects",
  allEnvironments: "All environments",
};

export const viewer = {
  signedInAs: "Signed in as",
  account: (principal: string) => `Principal: ${principal}`,
  keys: "Single-key shortcuts",
  times: "Times in",
  switchFailed: "The principal was not changed. Only `dvt dev` has other principals to try.",
  zone: "Time zone",
  theme: "Theme",
  themes: { system: "System", light: "Light", dark: "Dark" },
};

export const signIn = {
  title: "Sign in to dvt",
  with: (name: string) => `Sign in with ${name}`,
  none: "This server has no way to sign in with a browser. Ask its operator.",
  /** Parts with an odd index are commands. */
  devLink: [
    "Open the link that ",
    "dvt dev",
    " printed when it started, or run ",
    "dvt dev link",
    " for a new one, with the same ",
    "--data",
    ".",
  ],
  expired: "Your session has expired. Sign in again to continue where you were.",
  ended: "Your session was ended. Sign in again to continue where you were.",
  refused: "You were not signed in: the answer of the sign-in service could not be verified. Try again.",
  noRights: "You have signed in, but nobody has given you rights here. Ask an administrator of your tenant.",
  unavailable: "Signing in does not work just now. Try again in a minute.",
  out: "Sign out",
  stayed: "You are still signed in: the server did not answer. Try again.",
};

export const copyAs = {
  title: "Copy as",
  forms: { cli: "CLI", curl: "curl", graphql: "GraphQL" },
  copy: (form: string) => `Copy as ${form}`,
  done: (form: string) => `Copied as ${form}`,
};

export const share = {
  button: "Share",
  link: "Copy link",
  key: "Copy a link to this view",
  status: "Copy a link that shows the status",
  reveals: (hours: number) =>
    `Everybody with this link sees for ${hours} h, without sign-in: the plan's id and version, the status, when the run started, how long it took, and how many steps failed. The link is recorded in the audit log.`,
  until: "expires",
  copied: "Link copied",
  failed: "The link could not be copied. Copy it from the address bar.",
};
