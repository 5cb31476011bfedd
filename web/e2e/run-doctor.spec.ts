// The doctor says on the page of a run why it failed or does not continue, and leads to the evidence and to the action.
import { violationsOfBoth } from "./look";
import { become, cancelRun, expect, sleeps, startRun, status, test } from "./page";

const FAILS = [
  {
    stepId: "load",
    type: "COMMAND" as const,
    inputs: { argv: ["sh", "-c", "echo 'psql: connection refused' >&2; exit 1"] },
    retry: { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 },
  },
];

test("the doctor names the cause of a failure, its evidence, and the safe next step, and moves nothing", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "doctor-fails", FAILS);
  let answer: (() => void) | undefined;
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route("**/graphql", async (route) => {
    if (route.request().postData()?.includes("RunCauses")) await held;
    await route.continue();
  });
  const cause = page.getByTestId("root-cause");
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Failed, waiting");
  await expect(cause.getByRole("link", { name: /^Log line/ })).toBeVisible();
  await expect(cause).toContainText("Last success: none before this run");
  const before = await cause.boundingBox();
  answer?.();
  const doctor = cause.getByTestId("doctor");
  await expect(doctor).toContainText(/does not answer|cannot be reached|refused/i);
  expect(await cause.boundingBox()).toEqual(before);

  await doctor.getByRole("button", { name: "What to do" }).click();
  const causes = cause.getByRole("list", { name: "Causes, what must be mended first first" });
  await expect(causes).toContainText("psql: connection refused");
  expect(await violationsOfBoth(page)).toEqual([]);
  await causes.getByRole("button", { name: "Retry step…" }).first().click();
  await expect(page.getByRole("dialog")).toContainText("load");
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 1280, height: 800 });
  await causes
    .getByRole("link", { name: /^Event, seq/ })
    .first()
    .click();
  await expect(page).toHaveURL(/view=events/);

  await become(page, "dev-admin");
  // The first ten may be runs of other tests, which have less time left.
  await page.route("**/graphql", (route) => {
    const asked = route.request().postData() ?? "";
    if (!/query NeedSomebody\b/.test(asked)) return route.fallback();
    return route.continue({ postData: asked.replace('"first":10', '"first":60') });
  });
  await page.goto(`${url}/health`);
  await page.getByText("Runs that need somebody, and their first cause").click();
  const row = page.getByRole("row").filter({ hasText: "doctor-fails" }).first();
  await expect(row).toContainText(/does not answer|cannot be reached|refused/i);
  await cancelRun(url, runId);
});

test("the doctor is calm about a run that continues", async ({ page, url }) => {
  const runId = await startRun(url, "doctor-calm", sleeps(60_000, 1));
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  await page.getByRole("button", { name: "Diagnose" }).click();
  await expect(page.getByTestId("doctor")).toHaveText("Nothing holds the run up.");
  await cancelRun(url, runId);
});
