import { randomBytes } from "node:crypto";
import { ask } from "./api";
import { become, cancelRun, expect, sleeps, startRun, status, test } from "./page";
import { limitProject } from "./policy";

function id(): string {
  return `e2e-${randomBytes(8).toString("hex")}`;
}

const SIGNAL =
  "mutation Signal($input: SignalRunInput!) { signalRun(input: $input) { signal { decision application } } }";

test("the audit tells refusals that repeat once, keeps its filter in the address, and leads to the moment", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "e2e-audit", sleeps(8_000, 2));
  for (let i = 0; i < 3; i++) {
    await ask(url, "dev-viewer", SIGNAL, {
      input: { runId, signalId: id(), signal: { pause: { reason: "curious" } } },
    }).catch(() => {});
  }
  await ask(url, "dev-engineer", SIGNAL, {
    input: { runId, signalId: id(), signal: { pause: { reason: "maintenance" } } },
  });
  await page.goto(`${url}/audit?run=${runId.slice(0, 8)}`);
  await become(page, "dev-admin");
  const rows = page.getByRole("region", { name: "Audit" }).locator("tbody tr");
  // A record is listed when it has its link, which takes a moment after the start of dvt.
  await expect(async () => {
    await page.getByRole("button", { name: "Refresh" }).click();
    await expect(rows.filter({ hasText: "no permission" })).toHaveCount(1, { timeout: 1_000 });
  }).toPass();
  await expect(rows.filter({ hasText: "no permission" })).toContainText("3 times");
  await page.keyboard.press("/");
  await page.keyboard.type("dev-viewer");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/actor=dev-viewer/);
  await expect(rows).toHaveCount(1);
  await expect(page.getByLabel("Who", { exact: true })).toBeFocused();
  await page.getByRole("link", { name: "Clear the filter" }).click();
  await expect(page.getByLabel("Who", { exact: true })).toHaveValue("");
  await page
    .getByRole("link", { name: `Run ${runId.slice(0, 8)} at that moment` })
    .last()
    .click();
  await expect(page).toHaveURL(new RegExp(`/runs/${runId}\\?at=\\d+`));
  await cancelRun(url, runId);
});

test("an edit of the policy shows what it changes before it is sent, and who could is answered by the policy", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "e2e-policy", sleeps(50, 1));
  await page.goto(`${url}/admin/policy`);
  await become(page, "dev-admin");
  const version = async (): Promise<number> =>
    Number(/version (\d+)/.exec((await page.getByRole("heading", { level: 1 }).textContent()) ?? "")?.[1]);
  await expect(page.getByRole("heading", { level: 1 })).toContainText(/version \d/);
  const before = await version();
  await page.getByRole("button", { name: "Edit…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "JSON" }).click();
  const text = dialog.getByRole("textbox", { name: "JSON", exact: true });
  await expect(text).toHaveValue(/"completeManual": true/);
  const document = await text.inputValue();
  await text.fill(document.replace('"completeManual": true', '"completeManual": false'));
  await expect(dialog.getByRole("region", { name: "What this changes" })).toContainText(
    "the requester of a run may complete its manual steps",
  );
  await dialog.getByLabel(/Reason/).fill("two people are not always there");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toHaveCount(0);
  await expect.poll(version).toBe(before + 1);
  await page.getByLabel("Action").selectOption("Emergency stop");
  await page.getByLabel(/the id of a run/).fill(runId);
  await page.getByRole("button", { name: "Show who can" }).click();
  await expect(page.getByRole("status").filter({ hasText: "Emergency stop:" })).toContainText("dev-admin");
  await page.getByLabel("Action").selectOption("Start");
  await page.getByLabel(/the id of a run/).fill("shop/dev");
  await page.getByRole("button", { name: "Show who can" }).click();
  await expect(page.getByRole("status").filter({ hasText: "Start:" })).toContainText("dev-engineer");
  // As it was, for the tests that follow.
  await page.getByRole("button", { name: "Edit…" }).click();
  await dialog.getByRole("button", { name: "JSON" }).click();
  await text.fill(document);
  await dialog.getByLabel(/Reason/).fill("as before");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect.poll(version).toBe(before + 2);
});

test("what is wrong with a document is selected in it", async ({ page, url }) => {
  await page.goto(`${url}/admin/quotas`);
  await become(page, "dev-admin");
  await page.getByRole("button", { name: "Edit…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "JSON" }).click();
  const text = dialog.getByRole("textbox", { name: "JSON", exact: true });
  await text.fill(JSON.stringify({ projects: [{ projectId: "shop", limits: { maxActive: -1 } }] }, null, 2));
  await dialog.getByLabel(/Reason/).fill("to see what is wrong");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog.getByRole("alert")).toContainText("maxActive");
  await expect(text).toBeFocused();
  await expect
    .poll(() => text.evaluate((area: HTMLTextAreaElement) => area.value.slice(area.selectionStart, area.selectionEnd)))
    .toBe('"maxActive": -1');
});

test("the queue says why a run waits and when it may start, and takes it out", async ({ page, url }) => {
  const first = await startRun(url, "e2e-queue", sleeps(600_000, 1));
  await page.goto(`${url}/runs/${first}`);
  await expect(status(page)).toHaveText("Running");
  await limitProject(url, { maxActive: 1 });
  try {
    const waiting = await startRun(url, "e2e-queue", sleeps(50, 1));
    await page.goto(`${url}/queue`);
    const row = page
      .getByRole("region", { name: "Queue" })
      .locator("tbody tr")
      .filter({ hasText: waiting.slice(0, 8) });
    await expect(row).toContainText("e2e-queue@1.0");
    await expect(row.getByRole("cell", { name: "dev-engineer" })).toBeVisible();
    await expect(row).toContainText("All run slots are in use");
    await expect(page.getByRole("columnheader", { name: "Estimated wait" })).toBeVisible();
    await row.getByRole("button", { name: /Cancel run/ }).click();
    const dialog = page.getByRole("alertdialog");
    await expect(dialog).toContainText("The run has not started");
    await dialog.getByLabel(/to confirm/).fill(waiting.slice(0, 8));
    await dialog.getByRole("button", { name: "Cancel run" }).click();
    await expect(row).toHaveCount(0);
    await page.goto(`${url}/runs/${waiting}`);
    await expect(status(page)).toHaveText("Cancelled");
  } finally {
    await limitProject(url, null);
    await cancelRun(url, first);
  }
});

test("a dead letter shows what it was to tell, and redriving says what became of each", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-letters", sleeps(50, 1));
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Completed");
  await become(page, "dev-admin");
  // The bus of `dvt dev` refuses nothing: its letters are written here, the events are the run's own.
  const letters = ["a", "b"].map((letter) => ({
    id: letter,
    projectId: "shop",
    runId,
    fromSeq: 0,
    toSeq: 2,
    attempts: 10,
    cause: "410 Gone",
    buriedAt: "2026-11-21T02:11:00Z",
    redrivenAt: null,
  }));
  await page.route("**/graphql", (route) => {
    const body = route.request().postData() ?? "";
    if (/query DeadLetters\b/.test(body))
      return route.fulfill({
        json: {
          data: {
            deadLetters: {
              edges: letters.map((node) => ({ node })),
              pageInfo: { endCursor: null, hasNextPage: false },
            },
          },
        },
      });
    if (!/mutation Redrive\b/.test(body)) return route.fallback();
    const results = letters.map((letter, i) => ({
      id: letter.id,
      outcome: i === 0 ? "FAILED" : "REDRIVEN",
      code: i === 0 ? "UNAVAILABLE" : null,
      message: i === 0 ? "The bus still refuses it." : null,
      letter,
    }));
    return route.fulfill({ json: { data: { redriveDeadLetters: { results, more: false } } } });
  });
  await page.goto(`${url}/dlq`);
  const rows = page.getByRole("region", { name: "Dead letters" }).locator("tbody tr");
  await expect(rows).toHaveCount(2);
  await rows
    .first()
    .getByRole("button", { name: /^Message of run/ })
    .click();
  await expect(page.getByRole("dialog")).toContainText("RunStarted");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Redrive all open…" }).click();
  const dialog = page.getByRole("alertdialog");
  await expect(dialog).toContainText("ignore it");
  await dialog.getByLabel(/to confirm/).fill("redrive all");
  await dialog.getByRole("button", { name: "Redrive" }).click();
  await expect(rows.first()).toContainText("The bus still refuses it.");
});

test("a token's secret outlasts Esc, and an edit that is not saved is asked about", async ({ page, url }) => {
  await page.goto(`${url}/admin/tokens`);
  await become(page, "dev-admin");
  await page.getByRole("button", { name: "Create a token…" }).click();
  const dialog = page.getByRole("dialog");
  const name = dialog.getByLabel("Name", { exact: true });
  await name.fill("ci");
  await page.keyboard.press("Escape");
  await expect(name).toHaveValue("ci");
  await name.focus();
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("button", { name: "Copy" })).toBeFocused();
  for (let i = 0; i < 4; i++) await page.keyboard.press("Escape");
  await expect(dialog.locator("code")).toContainText("dvt_");
  await dialog.getByRole("button", { name: "Done" }).click();
  await expect(dialog).toHaveCount(0);

  await page.goto(`${url}/admin/policy`);
  await page.getByRole("button", { name: "Edit…" }).click();
  await dialog.getByLabel(/Reason/).fill("half typed");
  await page.keyboard.press("Escape");
  await expect(dialog.getByLabel(/Reason/)).toHaveValue("half typed");
  await expect(dialog.getByRole("alert")).toHaveText("Press Esc again to discard what you typed.");
  await expect(dialog.getByRole("button", { name: "Cancel", exact: true })).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
});

test("28 what none of one's roles gives is off, and says so", async ({ page, url }) => {
  await page.goto(`${url}/admin/service`);
  await become(page, "dev-viewer");
  for (const [name, why] of [
    ["Set to Read-only…", "You need the SRE role to change the mode."],
    ["Freeze the tenant…", "You need the Admin or the SRE role to freeze the tenant."],
  ] as const) {
    const button = page.getByRole("button", { name });
    await expect(button).toHaveAttribute("aria-disabled", "true");
    await expect(button).toHaveAccessibleDescription(new RegExp(why));
  }
  await become(page, "dev-sre");
  await expect(page.getByRole("button", { name: "Set to Read-only…" })).not.toHaveAttribute("aria-disabled");
  await page.goto(`${url}/start`);
  await expect(page.getByTestId("start-check")).toContainText("You need the Operator role to start a run.");
});
