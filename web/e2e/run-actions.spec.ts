// What one does to a run: preview, reason, confirmation by strength, receipt; refusals that say who could.
import type { Locator, Page } from "@playwright/test";
import { ask, changePolicy, receiptsOf, signal } from "./api";
import { stand } from "./held";
import { quantile, workOf } from "./large";
import { become, cancelRun, expect, type PlanStep, sleeps, startRun, status, sync, test } from "./page";
import { openWire, updateOf, withUpdate } from "./wire";

const ONCE = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };
const FAILING: PlanStep[] = [
  { stepId: "load", type: "COMMAND", inputs: { argv: ["ls", "/no/such/file"] }, retry: ONCE },
  { stepId: "models", type: "DBT_RUN", dependsOn: ["load"], inputs: { projectDir: "examples/shop" } },
  { stepId: "wait", type: "SLEEP", dependsOn: ["models"], inputs: { ms: 30_000 } },
];

/** The dialog in which an action is confirmed, opened from the list of all actions. */
async function choose(page: Page, action: string): Promise<Locator> {
  await expect(page.getByRole("button", { name: "Actions", exact: true })).toBeVisible();
  await page.keyboard.press(".");
  const button = page.locator(`[data-action="${action}"]`).first().getByRole("button").first();
  await expect(button).not.toHaveAttribute("aria-disabled", "true");
  await button.click();
  return page.locator("dialog[open]");
}

interface Form {
  reason?: string;
  fill?: (dialog: Locator) => Promise<void>;
}

/** Reads the preview, fills in what is asked for, confirms and sends. */
async function confirm(page: Page, action: string, { reason, fill }: Form = {}): Promise<void> {
  const dialog = await choose(page, action);
  await fill?.(dialog);
  await expect(dialog.getByTestId("preview")).toHaveAttribute("data-outcome", "APPLY");
  if (reason !== undefined) await dialog.getByLabel(/^Reason/).fill(reason);
  const word = /Type (\S+) to confirm/.exec((await dialog.textContent()) ?? "")?.[1];
  if (word !== undefined) await dialog.getByLabel(/to confirm/).fill(word);
  await dialog.locator('button[type="submit"]').click();
  await expect(dialog).toHaveCount(0);
}

test("23 every action is previewed, confirmed, and followed to the last stage that the API knows", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "actions-all", FAILING);
  await page.goto(`${url}/runs/${runId}?view=receipts&step=load`);
  await become(page, "dev-admin");
  await expect(status(page)).toHaveText("Failed, waiting");
  const applied = async (type: string): Promise<void> => {
    await expect
      .poll(async () => (await receiptsOf(url, runId)).filter((receipt) => receipt.type === type).at(-1)?.application, {
        message: type,
      })
      .toBe("APPLIED");
    const receipt = (await receiptsOf(url, runId)).filter((one) => one.type === type).at(-1);
    await expect(page.locator(`main [data-signal="${receipt?.signalId}"]`)).toContainText(
      `Applied at seq ${receipt?.appliedSeq}`,
    );
  };
  await confirm(page, "PAUSE", { reason: "look first" });
  await applied("PAUSE");
  await confirm(page, "RESUME");
  await applied("RESUME");
  await confirm(page, "UPDATE_PARAMS", {
    reason: "another day",
    fill: (dialog) => dialog.getByLabel(/Parameters/).fill('{"day":"2026-11-22"}'),
  });
  await applied("UPDATE_PARAMS");
  await confirm(page, "INJECT_OVERRIDE", {
    reason: "right path",
    fill: (dialog) => dialog.getByLabel(/Inputs/).fill('{"argv":["ls","/no/such/file/either"]}'),
  });
  await applied("INJECT_OVERRIDE");
  await confirm(page, "RETRY_STEP", { reason: "again" });
  await applied("RETRY_STEP");
  await expect(status(page)).toHaveText("Failed, waiting");

  await page.goto(`${url}/runs/${runId}?view=receipts&step=models`);
  await confirm(page, "UPDATE_TARGET", {
    reason: "elsewhere",
    fill: (dialog) => dialog.getByLabel("Schema").fill("mended"),
  });
  await applied("UPDATE_TARGET");
  await confirm(page, "SKIP_STEP", { reason: "not today" });
  await applied("SKIP_STEP");
  await become(page, "dev-system");
  await confirm(page, "ESCALATE_ALERT", {
    reason: "somebody look",
    fill: (dialog) => dialog.getByLabel("High").check(),
  });
  await applied("ESCALATE_ALERT");
  await become(page, "dev-admin");
  await confirm(page, "CANCEL", { reason: "wrong day" });
  await applied("CANCEL");
  await expect(status(page)).toHaveText("Cancelled");

  await confirm(page, "RERUN", { fill: (dialog) => dialog.getByLabel("Everything").check() });
  await expect(page).not.toHaveURL(new RegExp(runId));
  await expect(status(page)).toHaveText("Failed, waiting", { timeout: 30_000 });
  await confirm(page, "EMERGENCY_STOP", { reason: "stop it" });
  await expect(status(page)).toHaveText("Cancelled");
});

test("23 a manual step is completed by another person, and why not by oneself is said", async ({ page, url }) => {
  const runId = await startRun(url, "actions-manual", [
    { stepId: "check_totals", type: "MANUAL", inputs: { instructions: "Compare the totals.", evidence: ["ticket"] } },
  ]);
  await page.goto(`${url}/runs/${runId}?step=check_totals`);
  await expect(status(page)).toHaveText("Waiting for a person");
  await page.keyboard.press(".");
  const entry = page.locator('[data-action="COMPLETE_MANUAL_STEP"]');
  await expect(entry).toHaveAttribute("data-off", "true");
  await expect(entry).toContainText("You started the run");
  await page.keyboard.press("Escape");
  await become(page, "dev-admin");
  await confirm(page, "COMPLETE_MANUAL_STEP", {
    reason: "totals agree",
    fill: (dialog) => dialog.getByLabel(/Evidence/).fill("https://example.test/T-1"),
  });
  await expect(status(page)).toHaveText("Completed");
  expect((await receiptsOf(url, runId)).map(({ type, application, actor }) => [type, application, actor])).toEqual([
    ["COMPLETE_MANUAL_STEP", "APPLIED", "dev-admin"],
  ]);
});

test("23 a run that waits for approval says for whom, and starts when it is given", async ({ page, url }) => {
  const restore = await changePolicy(url, (grants) => ({
    grants,
    approvals: [{ projectId: "shop", environmentId: "gated", required: 1 }],
  }));
  try {
    const runId = await startRun(url, "actions-approve", sleeps(100, 1), "gated");
    await page.goto(`${url}/runs/${runId}`);
    await expect(page.getByText("0 of 1 approval")).toBeVisible();
    await expect(page.getByRole("button", { name: "Approve…" })).toHaveAttribute("aria-disabled", "true");
    await become(page, "dev-planner");
    await confirm(page, "APPROVE");
    await expect(status(page)).toHaveText("Completed");
  } finally {
    await restore();
  }
});

test("24 the dialog is there at once, whatever becomes of its preview, which is asked for once", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "actions-speed", sleeps(60_000, 1));
  const answers: (() => void)[] = [];
  await page.route("**/graphql", async (route) => {
    if (/query Preview\b/.test(route.request().postData() ?? ""))
      await new Promise<void>((resolve) => answers.push(resolve));
    return route.fallback();
  });
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByRole("button", { name: /^sleep_1, .*running/ }).first()).toBeVisible();
  const cdp = await page.context().newCDPSession(page);
  const pause = page.getByRole("button", { name: "Pause…" });
  const dialog = page.getByRole("dialog");
  const work: number[] = [];
  for (let i = 1; i <= 8; i++) {
    await expect(pause).not.toHaveAttribute("aria-disabled", "true");
    const before = await workOf(cdp);
    await pause.click();
    await dialog.waitFor();
    work.push((await workOf(cdp)) - before);
    await expect.poll(() => answers.length).toBe(i);
    await expect(dialog.getByTestId("preview")).toHaveCount(0);
    answers.at(-1)?.();
    await expect(dialog.getByTestId("preview")).toBeVisible();
    await page.keyboard.press("Escape");
    await expect(dialog).toHaveCount(0);
  }
  // The page's own work, as a machine with other work has it too; the times of a quiet one are `ui-dialog` and `ui-
  // preview`.
  expect(quantile(work, 0.5)).toBeLessThan(100);
});

test("25 a double click, a reload and a retry after a lost answer are one effect with one signalId", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "actions-once", sleeps(60_000, 1));
  await page.goto(`${url}/runs/${runId}`);
  const ids: (string | undefined)[] = [];
  let clicked = Promise.resolve();
  await page.route("**/graphql", async (route) => {
    const body = route.request().postData() ?? "";
    if (!body.includes("mutation SignalRun")) return route.fallback();
    ids.push(/"signalId":"([^"]+)"/.exec(body)?.[1]);
    // Both clicks come before what becomes of the first.
    await clicked;
    // The first is lost on its way, of the second the answer.
    if (ids.length === 2) await route.fetch();
    return ids.length <= 2 ? route.abort("connectionfailed") : route.fallback();
  });
  const open = async (): Promise<Locator> => {
    await page.getByRole("button", { name: "Pause…" }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog.getByTestId("preview")).toBeVisible();
    return dialog;
  };
  const first = await open();
  await first.getByLabel(/^Reason/).fill("maintenance");
  const send = first.getByRole("button", { name: "Pause" });
  clicked = send.dblclick();
  await clicked;
  await expect(first.getByText(/has no second effect/)).toBeVisible();
  expect(await receiptsOf(url, runId)).toEqual([]);
  clicked = send.dblclick();
  await clicked;
  await expect.poll(async () => (await receiptsOf(url, runId)).length).toBe(1);
  const kept = await page.evaluate(() => sessionStorage.getItem("dvt.intent"));
  await page.reload();
  await expect(status(page)).toContainText("Paused");
  const [receipt] = await receiptsOf(url, runId);
  expect(kept).toContain(receipt?.signalId);
  expect(ids).toEqual([receipt?.signalId, receipt?.signalId]);
  expect(receipt).toMatchObject({ type: "PAUSE", decision: "ACCEPTED", reason: "maintenance" });
  await page.getByRole("link", { name: /Receipts/ }).click();
  await expect(page.locator("main [data-signal]")).toHaveCount(1);
  expect(await receiptsOf(url, runId)).toHaveLength(1);
});

test("26 the slower of two sees what moved, keeps the input, and decides again", async ({ page, url }) => {
  const runId = await startRun(url, "actions-moved", sleeps(3_000, 80));
  const wire = await openWire(page);
  await page.goto(`${url}/runs/${runId}`);
  await page.getByRole("button", { name: "Pause…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/^Reason/).fill("my reason");
  await expect(dialog.getByTestId("preview")).toHaveAttribute("data-outcome", "APPLY");
  // The page is told that it is fresh, and nothing of what the other does.
  const seq = Number(/seq (\d+)/.exec((await sync(page).textContent()) ?? "")?.[1]);
  wire.meddle((frame) =>
    updateOf(frame) ? withUpdate(frame, { snapshot: null, delta: null, runSeq: seq, headSeq: seq }) : frame,
  );
  await signal(url, "dev-operator", runId, { pause: { reason: "theirs" } });
  await expect.poll(async () => (await receiptsOf(url, runId))[0]?.application).toBe("APPLIED");
  await signal(url, "dev-operator", runId, { resume: {} });
  await expect.poll(async () => (await receiptsOf(url, runId))[1]?.application).toBe("APPLIED");
  const sent = page.waitForRequest((request) => request.postData()?.includes("mutation SignalRun") === true);
  await dialog.getByRole("button", { name: "Pause" }).click();
  const first = /"signalId":"([^"]+)"/.exec((await sent).postData() ?? "")?.[1];
  const moved = dialog.getByTestId("moved");
  await expect(moved).toContainText("dev-operator paused the run");
  await expect(moved).toContainText("dev-operator resumed the run");
  await expect(dialog.getByLabel(/^Reason/)).toHaveValue("my reason");
  await expect(dialog.getByRole("button", { name: "Pause" })).toHaveCount(0);
  await dialog.getByRole("button", { name: "Review again" }).click();
  const again = page.waitForRequest((request) => request.postData()?.includes("mutation SignalRun") === true);
  await dialog.getByRole("button", { name: "Pause" }).click();
  expect(/"signalId":"([^"]+)"/.exec((await again).postData() ?? "")?.[1]).toBe(first);
  await expect
    .poll(async () => (await receiptsOf(url, runId))[2])
    .toMatchObject({ signalId: first, reason: "my reason" });
});

test("27 a receipt of what was rejected stays in its place until it is dismissed, over a reload too", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "actions-rejected", sleeps(60_000, 1));
  const other = await startRun(url, "actions-elsewhere", sleeps(60_000, 1));
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  await signal(url, "dev-engineer", runId, { retryStep: { stepId: "sleep_1", reason: "too early" } });
  const line = page.locator('main [data-receipt="RETRY_STEP"]');
  await expect(line).toContainText("Rejected");
  await expect(line).toHaveRole("alert");
  await page.goto(`${url}/runs/${other}`);
  await expect(status(page)).toHaveText("Running");
  await expect(page.locator("[data-receipt]"), "nothing of another run lies over the page").toHaveCount(0);
  await page.getByRole("button", { name: /^Receipts .*[1-9]\d* refused/ }).click();
  const tray = page.getByRole("region", { name: "Receipts" });
  const entry = tray.locator("[data-receipt]").filter({ hasText: runId.slice(0, 8) });
  await expect(entry).toContainText("Rejected");
  await page.keyboard.press("Escape");
  await expect(tray).toHaveCount(0);
  await page.goto(`${url}/runs/${runId}`);
  await expect(line).toContainText("Rejected");
  await line.getByRole("button", { name: "Dismiss" }).click();
  await expect(line).toHaveCount(0);
  await page.reload();
  await expect(sync(page)).toContainText("Live");
  await expect(line).toHaveCount(0);
});

test("28 for each role what is enabled is what the API would do, and a refusal names the role and who could", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "actions-matrix", FAILING);
  await page.goto(`${url}/runs/${runId}?step=load`);
  await expect(status(page)).toHaveText("Failed, waiting");
  const inputs: Record<string, Record<string, unknown>> = {
    PAUSE: { signal: { runId, signal: { pause: {} } } },
    RESUME: { signal: { runId, signal: { resume: {} } } },
    RETRY_STEP: { signal: { runId, signal: { retryStep: { stepId: "load" } } } },
    SKIP_STEP: { signal: { runId, signal: { skipStep: { stepId: "load" } } } },
    INJECT_OVERRIDE: {
      signal: { runId, signal: { injectOverride: { stepId: "load", override: { argv: ["ls"] }, reason: "x" } } },
    },
    ESCALATE_ALERT: { signal: { runId, signal: { escalateAlert: { level: "LOW" } } } },
    CANCEL: { cancel: { runId } },
    EMERGENCY_STOP: { signal: { runId, signal: { emergencyStop: { reason: "x" } } } },
  };
  const preview = "query P($action: ActionInput!) { preview(action: $action) { outcome } }";
  for (const principal of ["dev-viewer", "dev-operator", "dev-engineer", "dev-admin"]) {
    await become(page, principal);
    await expect(status(page)).toHaveText("Failed, waiting");
    await page.keyboard.press(".");
    for (const action of ["RETRY_STEP", "CANCEL"])
      await expect(page.locator(`dialog [data-action="${action}"]`).first()).toBeAttached();
    // Those that are refused are folded.
    await page.locator("dialog details").evaluateAll((all) => all.forEach((one) => one.setAttribute("open", "")));
    for (const [action, input] of Object.entries(inputs)) {
      const { preview: would } = await ask<{ preview: { outcome: string } }>(url, principal, preview, {
        action: input,
      });
      const entry = page.locator(`[data-action="${action}"]`).first();
      if (would.outcome === "APPLY") {
        await expect(entry, `${principal} ${action}`).not.toHaveAttribute("data-off", "true");
        continue;
      }
      await expect(entry, `${principal} ${action}`).toHaveAttribute("data-off", "true");
      if (would.outcome !== "REFUSED") continue;
      await expect(entry).toContainText(/You need the (Operator|Engineer|Admin|System) role/);
      await expect(entry).toContainText(/Who can do this: .*dev-/);
      const refused = page.locator("dialog details").filter({ has: page.locator(`[data-action="${action}"]`) });
      await expect(refused.getByRole("button", { name: "Copy request" }).first()).toBeVisible();
    }
    await page.keyboard.press("Escape");
  }
});

test("29 whose right is taken away while watching sees nothing of the run a second later", async ({ page, url }) => {
  const runId = await startRun(url, "actions-revoked", sleeps(60_000, 1));
  const wire = await openWire(page);
  await page.clock.install();
  await page.goto(`${url}/runs/${runId}`);
  await become(page, "dev-viewer");
  await expect(status(page)).toHaveText("Running");
  await expect(sync(page)).toContainText("Live");
  let ended = false;
  wire.meddle((frame) => {
    if (frame.type === "error" || frame.type === "complete") ended = true;
    return frame;
  });
  await stand(page);
  const restore = await changePolicy(url, (grants) => ({
    grants: grants.filter(({ principal }) => principal !== "dev-viewer"),
  }));
  try {
    await expect.poll(() => ended).toBe(true);
    await page.clock.runFor(1_000);
    await expect(page.getByText(/You may not see this run|There is nothing here/)).toBeVisible();
    await expect(page.getByText("sleep_1")).toHaveCount(0);
    await expect(status(page)).toHaveCount(0);
  } finally {
    await restore();
  }
});

test("31 what cannot be undone is not sent by Enter alone, and the focus begins on the way back", async ({
  page,
  url,
}) => {
  // The run moves on while the dialog is open: that is no reason to refuse a cancel.
  const runId = await startRun(url, "actions-strong", sleeps(300, 600));
  await page.goto(`${url}/runs/${runId}`);
  await page.getByRole("button", { name: "Cancel run…" }).click();
  const dialog = page.getByRole("alertdialog");
  await expect(dialog.getByRole("button", { name: "Keep running" })).toBeFocused();
  const send = dialog.getByRole("button", { name: "Cancel run" });
  await expect(send).toBeDisabled();
  await dialog.getByLabel(/to confirm/).fill(runId.slice(0, 8));
  await expect(send).toBeEnabled();
  await page.keyboard.press("Enter");
  await expect(dialog).toBeVisible();
  expect(await receiptsOf(url, runId)).toEqual([]);
  await send.click();
  await expect(status(page)).toHaveText("Cancelled");
});

test("34 35 by keys alone: find the failed run, read why, see the log, retry, watch it applied; the focus is seen and comes back", async ({
  page,
  url,
}) => {
  const plan = `actions-keys-${Date.now()}`;
  const runId = await startRun(url, plan, FAILING);
  await page.goto(`${url}/runs?q=${plan}`);
  await expect(page.locator(`tr[data-run]`)).toHaveCount(1);
  let keys = 0;
  const press = async (key: string): Promise<void> => {
    keys += 1;
    await page.keyboard.press(key);
  };
  await press("j");
  await press("Enter");
  await expect(page).toHaveURL(new RegExp(runId));
  await expect(page.getByTestId("root-cause")).toContainText("No such file");
  await press("l");
  await expect(page.getByRole("region", { name: "Log" })).toContainText("No such file");
  await press("r");
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByLabel(/^Reason/)).toBeFocused();
  await expect(dialog.getByTestId("preview")).toHaveAttribute("data-outcome", "APPLY");
  await press("Control+Enter");
  await expect(page.locator('[data-receipt="RETRY_STEP"]').first()).toContainText(/Applied at seq \d+/);
  expect(keys).toBeLessThanOrEqual(14);

  const pause = page.getByRole("button", { name: "Pause…" });
  await expect(pause).not.toHaveAttribute("aria-disabled", "true");
  await pause.focus();
  await page.keyboard.press("Enter");
  await expect(dialog).toBeVisible();
  for (let i = 0; i < 4; i++) {
    await page.keyboard.press("Tab");
    const seen = await page.evaluate(() => {
      const at = document.activeElement;
      if (!at || at === document.body) return null;
      const box = at.getBoundingClientRect();
      const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
      return {
        outlined: getComputedStyle(at).outlineStyle !== "none",
        clear: top !== null && (at.contains(top) || top.contains(at)),
      };
    });
    if (seen) expect(seen).toEqual({ outlined: true, clear: true });
  }
  await page.keyboard.press("Escape");
  await expect(pause).toBeFocused();
});

test("23 a step whose error a retry does not cure is retried by force, and only so", async ({ page, url }) => {
  const runId = await startRun(url, "act-force", [
    { stepId: "load", type: "COMMAND", inputs: { argv: ["no-such-program-here"] } },
  ]);
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByTestId("root-cause")).toContainText("a retry alone does not help");
  await page.getByRole("button", { name: "Retry step…" }).click();
  const dialog = page.getByRole("dialog");
  const send = dialog.getByRole("button", { name: "Retry step" });
  await expect(dialog).toContainText("retry with force");
  await expect(send).toBeDisabled();
  await dialog.getByRole("checkbox").check();
  await expect(dialog).toContainText("although its error is marked as not retryable");
  await send.click();
  await expect(page.locator('main [data-receipt="RETRY_STEP"]')).toContainText(/Applied at seq \d+/);
  await cancelRun(url, runId);
});
