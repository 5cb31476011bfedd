import type { Page } from "@playwright/test";
import { ask } from "./api";
import { held } from "./held";
import { cancelRun, expect, sleeps, startRun, sync, test } from "./page";

function rows(page: Page) {
  return page.locator("tr[data-run]");
}

async function open(page: Page, address: string): Promise<void> {
  await page.goto(address);
  await expect(sync(page)).toContainText("Live");
}

test("22 no row moves under the pointer while runs start and change", async ({ page, url }) => {
  const moving = [];
  for (let i = 0; i < 3; i++) moving.push(await startRun(url, "e2e-still", sleeps(400, 300)));
  await open(page, `${url}/runs?plan=e2e-still`);
  await expect(rows(page)).toHaveCount(3);
  const points = await rows(page).evaluateAll((found) =>
    found.map((row) => ({ id: row.getAttribute("data-run"), top: row.getBoundingClientRect().top })),
  );
  const more = (async (): Promise<void> => {
    for (let i = 0; i < 8; i++) await startRun(url, "e2e-still", sleeps(200, 30));
  })();
  const changes = await page.evaluate(async (seen) => {
    const table = document.querySelector("tbody");
    let moved = 0;
    let changed = 0;
    let looked = 0;
    const watch = new MutationObserver((records) => (changed += records.length));
    if (table) watch.observe(table, { subtree: true, childList: true, characterData: true, attributes: true });
    const until = performance.now() + 10_000;
    while (performance.now() < until) {
      // A banner that says that the list may not be true stands above it, and may come on a loaded machine.
      const live =
        document.querySelector('[data-testid="sync"][data-state="LIVE"]') !== null &&
        document.querySelector("[data-service]") === null;
      if (live) looked += 1;
      for (const { id, top } of live ? seen : []) {
        const row = document.querySelector(`tr[data-run="${id}"]`);
        const under = document
          .elementFromPoint(500, top + 10)
          ?.closest("tr")
          ?.getAttribute("data-run");
        if (row?.getBoundingClientRect().top !== top || under !== id) moved += 1;
      }
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
    watch.disconnect();
    return { moved, changed, looked };
  }, points);
  await more;
  expect(changes.moved).toBe(0);
  expect(changes.changed).toBeGreaterThan(20);
  expect(changes.looked).toBeGreaterThan(20);
  await page.getByRole("button", { name: /8 newer runs match: show/ }).click();
  await expect(rows(page)).toHaveCount(11);
  await expect(rows(page).nth(8)).toHaveAttribute("data-run", points[0]?.id ?? "");
  for (const runId of moving) await cancelRun(url, runId);
});

test("22 a run that stops matching stays, marked, until the list is read again", async ({ page, url }) => {
  const { step, release } = held("load");
  const runId = await startRun(url, "e2e-leaves", [step]);
  await open(page, `${url}/runs?plan=e2e-leaves&status=PENDING,RUNNING`);
  const row = page.locator(`tr[data-run="${runId}"]`);
  await expect(row).toBeVisible();
  release();
  await expect(row).toContainText("no longer matches");
  await page.getByRole("button", { name: "Refresh the list" }).click();
  await expect(page.getByText("No run matches this filter.")).toBeVisible();
  await expect(page.getByText("status:PENDING,RUNNING plan:e2e-leaves")).toBeVisible();
});

test("39 the filter is in the address, and the bar says the same", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-filter", sleeps(50, 1));
  await expect
    .poll(() => ask(url, "dev-engineer", `{ run(runId: "${runId}") { status } }`))
    .toEqual({ run: { status: "COMPLETED" } });
  await open(page, `${url}/runs`);
  await page.keyboard.press("/");
  const bar = page.getByRole("searchbox", { name: "Filter runs" });
  await expect(bar).toBeFocused();
  await bar.fill("plan:e2e-filter status:completed,running from:-2h");
  await expect(page).toHaveURL(/\/runs\?(?=.*plan=e2e-filter)(?=.*status=RUNNING,COMPLETED)(?=.*from=-2h)/);
  await expect(rows(page)).toHaveCount(1);
  await page.reload();
  await expect(bar).toHaveValue("status:RUNNING,COMPLETED plan:e2e-filter from:-2h");
  await expect(page.getByRole("button", { name: "Completed" })).toHaveAttribute("aria-pressed", "true");
  await bar.fill("plan:e2e-filter colour:red");
  await expect(page.getByText("Not understood: colour:red")).toBeVisible();
  // A view is that query under a name, also after a reload.
  await bar.fill("plan:e2e-filter sort:oldest");
  await expect(page).toHaveURL(/sort=oldest/);
  await expect(sync(page)).toContainText("Read every 5 s");
  await page.getByRole("button", { name: "+ Save view" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("Filters");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).press("Enter");
  await expect(page.getByRole("link", { name: "Filters" })).toBeFocused();
  await page.getByRole("link", { name: "All", exact: true }).click();
  await page.reload();
  await page.getByRole("link", { name: "Filters" }).click();
  await expect(bar).toHaveValue("plan:e2e-filter sort:oldest");
  await page.getByRole("button", { name: "Remove view" }).press("Enter");
  await expect(page.getByRole("link", { name: "Filters" })).toHaveCount(0);
  await expect(page.getByRole("button", { name: "+ Save view" })).toBeFocused();
});

test("34 keys walk, select and open rows, and never fire in a field", async ({ page, url }) => {
  const ids = [
    await startRun(url, "e2e-walk", sleeps(50, 1)),
    await startRun(url, "e2e-walk", sleeps(50, 1)),
    await startRun(url, "e2e-walk", sleeps(50, 1)),
  ].toReversed();
  await open(page, `${url}/runs?plan=e2e-walk`);
  await expect(rows(page)).toHaveCount(3);
  await page.keyboard.press("j");
  await expect(rows(page).nth(0).getByRole("link")).toBeFocused();
  await page.keyboard.press("x");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("Shift+X");
  await expect(page.getByRole("checkbox", { checked: true })).toHaveCount(4);
  await page.keyboard.press("Escape");
  await expect(page.getByRole("checkbox", { checked: true })).toHaveCount(0);
  await page.keyboard.press("x");
  await page
    .getByRole("region", { name: "Selected runs" })
    .getByRole("button", { name: /^Clear/ })
    .press("Enter");
  await expect(page.getByRole("checkbox", { checked: true })).toHaveCount(0);
  await expect(rows(page).nth(2).getByRole("link")).toBeFocused();
  await page.keyboard.press("/");
  await page.keyboard.type("xjc");
  await expect(page.getByRole("checkbox", { checked: true })).toHaveCount(0);
  await expect(page).toHaveURL(/\/runs/);
  await page.goto(`${url}/runs?plan=e2e-walk`);
  await expect(rows(page)).toHaveCount(3);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`/runs/${ids[0]}`));
  await page.goBack();
  await expect(rows(page)).toHaveCount(3);
  await page.keyboard.press("c");
  await expect(page).toHaveURL(/\/start/);
});

test("the menu of a row is walked by arrows and goes where it says", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-menu", sleeps(50, 1));
  await open(page, `${url}/runs?plan=e2e-menu`);
  const button = page.locator(`tr[data-run="${runId}"]`).getByRole("button", { name: /^More for e2e-menu/ });
  await button.press("Enter");
  await expect(page.getByRole("menuitem", { name: "Open", exact: true })).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("menuitem")).toHaveCount(0);
  await expect(button).toBeFocused();
  await button.press("Enter");
  await expect(page.getByRole("menuitem", { name: "Open", exact: true })).toBeFocused();
  await page.keyboard.press("ArrowUp");
  await expect(page.getByRole("menuitem", { name: "Start this plan…" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`/start\\?from=${runId}`));
});

test("a drag over the bars narrows the list to that time, which the address holds", async ({ page, url }) => {
  await startRun(url, "e2e-bars", sleeps(50, 1));
  await open(page, `${url}/runs?plan=e2e-bars`);
  await expect(page.getByText(/^1 run created/)).toBeVisible();
  const box = await page.locator("figure svg").boundingBox();
  if (!box) throw new Error("there are no bars");
  await page.mouse.move(box.x + box.width * 0.1, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 20, { steps: 4 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=.*to=/);
  await expect(page.getByText("No run matches this filter.")).toBeVisible();
  await expect(page.getByRole("searchbox", { name: "Filter runs" })).toHaveValue(/plan:e2e-bars from:\S+Z to:\S+Z/);
});

test("39 Mine is a view of what the viewer started, live", async ({ page, url }) => {
  await startRun(url, "e2e-mine", sleeps(50, 1));
  await open(page, `${url}/runs`);
  await page.getByRole("link", { name: /^Mine( \d+\+?)?$/ }).click();
  const bar = page.getByRole("searchbox", { name: "Filter runs" });
  await expect(bar).toHaveValue("by:me");
  await bar.fill("plan:e2e-mine by:me");
  await expect(rows(page)).toHaveCount(1);
  await startRun(url, "e2e-mine", sleeps(50, 1));
  await expect(page.getByRole("button", { name: /1 newer run matches: show/ })).toBeVisible();
  await bar.fill("plan:e2e-mine by:somebody-else");
  await expect(page.getByText("No run matches this filter.")).toBeVisible();
});

test("the short id that a row shows is what the filter and dvt run find the run by", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-short-id", sleeps(50, 1));
  await open(page, `${url}/runs?plan=e2e-short-id`);
  const shown = (await rows(page).locator("code").first().textContent()) ?? "";
  expect(runId.startsWith(shown)).toBe(true);
  await page.keyboard.press("/");
  await page.keyboard.type(shown);
  await expect(page).toHaveURL(new RegExp(`q=${shown}`));
  await expect(rows(page)).toHaveCount(1);
});

test("what is filtered away is not selected", async ({ page, url }) => {
  await startRun(url, "e2e-away", sleeps(50, 1));
  await open(page, `${url}/runs?plan=e2e-away`);
  await expect(rows(page)).toHaveCount(1);
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  const bar = page.getByRole("region", { name: "Selected runs" });
  await expect(bar).toContainText("1 run selected");
  await page.getByRole("button", { name: "Cancelled", exact: true }).click();
  await expect(rows(page)).toHaveCount(0);
  await expect(bar).toHaveCount(0);
});

test("39 the way back undoes a status that was chosen", async ({ page, url }) => {
  await open(page, `${url}/runs?plan=e2e-back`);
  await page.getByRole("button", { name: "Failed", exact: true }).click();
  await expect(page).toHaveURL(/status=FAILED/);
  await page.goBack();
  await expect(page).toHaveURL(/\/runs\?plan=e2e-back$/);
  await expect(page.getByRole("searchbox", { name: "Filter runs" })).toHaveValue("plan:e2e-back");
});

test("an answer for the list before says nothing of the one that is shown", async ({ page, url }) => {
  await startRun(url, "e2e-before", sleeps(50, 1));
  await startRun(url, "e2e-after", sleeps(50, 1));
  await page.goto(`${url}/runs?plan=e2e-before&sort=oldest`);
  await expect(sync(page)).toContainText("Read every 5 s");
  const late = new Promise<() => Promise<void>>((asked) => {
    void page.route("**/graphql", async (route) => {
      const body = route.request().postData() ?? "";
      if (/query Runs\b/.test(body) && body.includes('"e2e-before"')) asked(() => route.continue());
      else await route.fallback();
    });
  });
  const answer = await late;
  await page.getByRole("searchbox", { name: "Filter runs" }).fill("plan:e2e-after sort:oldest");
  await expect(rows(page)).toHaveCount(1);
  await expect(rows(page)).toContainText("e2e-after");
  // The next time that the list is read again would hide what the late answer has done to it.
  const marked = rows(page).evaluate(
    (row) =>
      new Promise((resolve) => {
        const look = (): void => void (row.hasAttribute("data-left") && resolve(true));
        look();
        new MutationObserver(look).observe(row, { attributes: true });
        setTimeout(() => resolve(false), 2_000);
      }),
  );
  await answer();
  expect(await marked).toBe(false);
});
