// Every page as each role: nothing on it leads to a refusal, and what the role is there for can be done.
import type { Page } from "@playwright/test";
import { signal } from "./api";
import { link } from "./dvt";
import { cancelRun, expect, type PlanStep, sleeps, startRun, test, visit } from "./page";
import { requireApproval } from "./policy";

const ONCE = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };
const FAILS: PlanStep[] = [
  { stepId: "load", type: "COMMAND", inputs: { argv: ["sh", "-c", "echo 'no table' >&2; exit 3"] }, retry: ONCE },
  { stepId: "build", type: "NOOP", dependsOn: ["load"], inputs: {} },
];
const MANUAL: PlanStep[] = [{ stepId: "check", type: "MANUAL", inputs: { instructions: "Compare the totals." } }];

type Run = "failed" | "other" | "running" | "manual" | "approval";
type Role = keyof typeof ROLES;

/** The pages without a run in their address. */
const PAGES = [
  "",
  "runs",
  "plans",
  "plans/roles-fails?project=shop&env=dev",
  "plans/roles-fails/steps/load?project=shop&env=dev",
  "inbox",
  "queue",
  "dlq",
  "audit",
  "admin/tokens",
  "admin/policy",
  "admin/quotas",
  "admin/service",
  "admin/secrets",
  "admin/retention",
  "admin/erasure",
  "health",
  "workers",
  "alerts",
  "incidents",
  "deliveries",
  "bulk",
  "start",
  "graphiql",
];
/** With TEST_LONG each view of a run is visited, each dialog opened, and a link of each kind followed. */
const LONG = process.env["TEST_LONG"] === "1";
const VIEWS = LONG ? ["", "?step=load", "?view=timeline", "?view=steps", "?view=events", "?view=receipts"] : [""];

/** What each role does: on this page, this button can be pressed. Others on the page may be off, with their reason. */
const ROLES = {
  viewer: { account: "dev-viewer", does: [["admin/tokens", "Create a token…"]] },
  operator: {
    account: "dev-operator",
    does: [
      ["running", "Pause…"],
      ["alerts", /^Acknowledge:/],
    ],
  },
  engineer: {
    account: "dev-engineer",
    does: [
      ["failed", "Retry step…"],
      ["failed", "Cancel run…"],
    ],
  },
  approver: { account: "dev-planner", does: [["approval", "Approve…"]] },
  admin: {
    account: "dev-admin",
    does: [
      ["manual", /^Complete/],
      ["admin/policy", "Edit…"],
      ["admin/quotas", "Edit…"],
      ["admin/service", "Freeze the tenant…"],
      ["audit", "Export CSV"],
    ],
  },
  sre: {
    account: "dev-sre",
    does: [
      ["admin/service", "Set to Read-only…"],
      ["workers", /^Drain/],
      ["audit", "Export CSV"],
    ],
  },
} as const satisfies Record<string, { account: string; does: readonly (readonly [string, string | RegExp])[] }>;

/** The pages that a role may not see. They say who may, and ask the server for nothing. */
const OF_ADMINISTRATORS = ["dlq", "audit", "admin/policy", "admin/secrets", "admin/retention", "admin/erasure"];
const CLOSED: Readonly<Record<Role, readonly string[]>> = {
  viewer: [...OF_ADMINISTRATORS, "workers", "deliveries"],
  operator: [...OF_ADMINISTRATORS, "workers", "deliveries"],
  engineer: [...OF_ADMINISTRATORS, "workers", "deliveries"],
  approver: [...OF_ADMINISTRATORS, "workers", "deliveries"],
  admin: ["workers", "deliveries"],
  sre: ["admin/policy", "admin/retention"],
};

const runs: Partial<Record<Run, string>> = {};

test.beforeAll(async ({ url }) => {
  await requireApproval(url, "gated", 1);
  runs.failed = await startRun(url, "roles-fails", FAILS);
  runs.other = await startRun(url, "roles-fails", FAILS);
  runs.running = await startRun(url, "roles-runs", sleeps(900_000, 1));
  runs.manual = await startRun(url, "roles-manual", MANUAL);
  runs.approval = await startRun(url, "roles-gated", sleeps(50, 1), "gated");
  await signal(url, "dev-system", runs.running, { escalateAlert: { level: "LOW", note: "somebody look" } });
});

test.afterAll(async ({ url }) => {
  await requireApproval(url, "gated", 0);
  for (const runId of Object.values(runs)) await cancelRun(url, runId).catch(() => {});
});

/** Every refusal that the server gives while the page is used. */
function listen(page: Page): string[] {
  const refused: string[] = [];
  const read = (text: string, of: string): void => {
    if (/"code":\s*"FORBIDDEN"/.test(text) && /"errors":\s*\[/.test(text)) refused.push(`${page.url()}: ${of}`);
  };
  page.on("response", (response) => {
    if (!response.url().endsWith("/graphql")) return;
    const of = /(query|mutation) \w+/.exec(response.request().postData() ?? "")?.[0] ?? "";
    // A page that left before its answer came asks no more.
    response.text().then(
      (text) => read(text, of),
      () => {},
    );
  });
  page.on("websocket", (socket) => {
    socket.on("framereceived", ({ payload }) => read(String(payload).replace('"payload":[', '"errors":['), "stream"));
  });
  return refused;
}

async function settled(page: Page): Promise<void> {
  await expect(page.locator("main")).not.toBeEmpty();
  await expect(page.locator("main").getByRole("status", { name: /^Loading/ })).toHaveCount(0);
}

const OURS =
  /^\/($|\?|(runs|plans|inbox|queue|dlq|audit|admin|health|workers|alerts|incidents|deliveries|bulk|start)\b)/;

/** The pages that links lead to, each once, by their addresses without ids and parameters. */
async function linksOf(page: Page): Promise<string[]> {
  const all = await page
    .locator("main a[href^='/'], header a[href^='/']")
    .evaluateAll((links) => links.map((link) => link.getAttribute("href") ?? ""));
  // The reference of the API and files are no pages of the UI.
  return all.filter((href) => OURS.test(href));
}

for (const role of Object.keys(ROLES) as Role[]) {
  const { account, does } = ROLES[role];
  test(`28 every page as ${role}: nothing leads to a refusal, and nothing needed is missing`, async ({
    browser,
    url,
  }) => {
    const context = await browser.newContext();
    await context.request.get(await link(account), { maxRedirects: 0 });
    const page = await context.newPage();
    const refused = listen(page);
    const pressed = new Set<string>();
    const followed = new Set<string>();
    const addresses = [
      ...PAGES,
      ...VIEWS.map((view) => `runs/${runs.failed}${view}`),
      ...(["running", "manual", "approval"] as const).map((name) => `runs/${runs[name]}`),
      `compare?a=${runs.failed}&b=${runs.other}`,
    ];
    await page.goto(`${url}/runs`);
    for (const address of addresses) {
      await visit(page, address);
      await settled(page);
      const closed = CLOSED[role].includes(address);
      const says = page
        .getByRole("heading", { name: "You may not see this" })
        .or(page.getByText("You may not see this"));
      await expect.soft(says, `${role}, ${address}`).toHaveCount(closed ? 1 : 0);
      if (closed) await expect.soft(page.locator("main"), `${role}, ${address}`).toContainText("Who can do this:");
      if (!LONG) continue;
      for (const href of await linksOf(page)) followed.add(href);
      // A button with … opens a dialog: it is opened and closed, the first of each name.
      const buttons = page.locator("main").getByRole("button", { name: /…$/ });
      for (let i = 0; i < (await buttons.count()); i++) {
        const button = buttons.nth(i);
        const name = (await button.getAttribute("aria-label")) ?? (await button.textContent()) ?? "";
        const kind = name.replaceAll(/[0-9a-f]{8}\S*/g, "ID");
        if (pressed.has(kind) || (await button.getAttribute("aria-disabled")) === "true" || !(await button.isVisible()))
          continue;
        pressed.add(kind);
        await button.click();
        await page.waitForTimeout(100);
        for (let n = 0; n < 3 && (await page.locator("dialog[open]").count()) > 0; n++)
          await page.keyboard.press("Escape");
      }
    }
    // Where links lead to, one of each kind of page.
    const kinds = new Map([...followed].map((href) => [kindOf(href), href]));
    for (const [kind, href] of kinds) {
      await visit(page, href.slice(1));
      await settled(page);
      if (CLOSED[role].some((closed) => kind === `/${closed}`)) continue;
      await expect.soft(page.getByText("You may not see this"), `${role}, link to ${href}`).toHaveCount(0);
      await expect.soft(page.getByText("There is nothing here"), `${role}, link to ${href}`).toHaveCount(0);
    }
    for (const [at, name] of does) {
      await visit(page, at in runs ? `runs/${runs[at as Run]}` : at);
      const button = page.getByRole("button", { name }).first();
      await expect.soft(button, `${role}, ${at}`).toBeVisible();
      await expect.soft(button, `${role}, ${at}`).not.toHaveAttribute("aria-disabled", "true");
    }
    expect.soft(refused, `${role}: what the server refused`).toEqual([]);
    await context.close();
  });
}

/** The address without ids and values, so that links of one kind are followed once. */
function kindOf(href: string): string {
  const [path = ""] = href.split("?");
  return path.replaceAll(/\/(?=[^/]*\d)[^/]{6,}/g, "/ID");
}
