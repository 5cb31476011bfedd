import { become, expect, signIn, sleeps, startRun, status, sync, test } from "./page";

test("34 the palette opens from anywhere and finds pages, actions and runs by the start of their id", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "e2e-palette", sleeps(50, 1));
  await page.goto(`${url}/runs`);
  await expect(sync(page)).toContainText("Live");
  await page.keyboard.press("/");
  await page.keyboard.press("Control+k");
  const palette = page.getByRole("dialog", { name: "Go to anything" });
  const input = palette.getByRole("combobox");
  await expect(input).toBeFocused();
  await input.fill("dead");
  await expect(palette.getByRole("option")).toHaveText(["Go to Dead lettersg d"]);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/dlq$/);
  await expect(palette).toHaveCount(0);
  await page.keyboard.press("Control+k");
  await input.fill(runId.slice(0, 13));
  await expect(palette.getByRole("option")).toHaveCount(1);
  await expect(palette.getByRole("option")).toContainText("e2e-palette");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`/runs/${runId}`));
  await expect(status(page)).toHaveText(/Completed|Running|Approved|Pending/);
});

test("34 keys go to pages, the help lists them, and they can be turned off", async ({ page, url }) => {
  // The second key follows the first within a second and a half, however slow the machine is.
  await page.clock.setFixedTime(new Date());
  await page.goto(`${url}/runs`);
  await expect(sync(page)).toContainText("Live");
  for (const [key, path] of [
    ["i", "inbox"],
    ["q", "queue"],
    ["d", "dlq"],
    ["a", "audit"],
    ["h", "health"],
    ["r", "runs"],
  ] as const) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await expect(page).toHaveURL(new RegExp(`/${path}(\\?|$)`));
  }
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "Keys" });
  await expect(help).toContainText("Select the row");
  await expect(help).toContainText("Go to Inbox");
  await expect(help).toContainText(/(CtrlK|⌘K)Go to anything/);
  await expect(help).toContainText("EscClose the open part");
  await help.getByLabel("Single-key shortcuts").uncheck();
  await page.keyboard.press("Escape");
  await page.keyboard.press("c");
  await page.keyboard.press("?");
  await expect(help).toHaveCount(0);
  await expect(page).toHaveURL(/\/runs/);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /^Page, plan/ }).fill("turn single");
  await page.keyboard.press("Enter");
  await page.keyboard.press("c");
  await expect(page).toHaveURL(/\/start/);
});

test("the end of a session is asked about over the page, which keeps its address and what was typed", async ({
  page,
  url,
}) => {
  await page.goto(`${url}/start`);
  await become(page, "dev-operator");
  const plan = page.locator("main textarea").first();
  await plan.fill('{"half": "typed"}');
  const before = page.url();
  await page.context().clearCookies();
  await page.keyboard.press("Control+k");
  const over = page.getByRole("dialog", { name: "Sign in to dvt" });
  await expect(over).toContainText("Your session was ended");
  await expect(plan).toBeHidden();
  for (let i = 0; i < 4; i++) await page.keyboard.press("Escape");
  await expect(over).toContainText("run dvt dev link for a new one");
  await signIn(page.context(), "dev-operator");
  await expect(over).toHaveCount(0);
  await expect(plan).toHaveValue('{"half": "typed"}');
  expect(page.url()).toBe(before);
});

test("39 the place narrows the list by the address, and production is a band with the word", async ({ page, url }) => {
  await page.goto(`${url}/audit?env=prod`);
  await page.goto(`${url}/runs?env=prod&tz=local`);
  const place = page.getByLabel("Environment", { exact: true });
  await expect(place).toHaveValue("prod");
  await expect(place.locator("option:checked")).toHaveText("PROD");
  await expect(page.getByRole("searchbox", { name: "Filter runs" })).toHaveValue("env:prod");
  await place.selectOption({ label: "All environments" });
  await expect(page).not.toHaveURL(/env=/);
  await expect(page).toHaveURL(/tz=local/);
});

test("the bar has all pages in sight down to 800 px, and whole scopes on a phone", async ({ page, url }) => {
  const pages = page.getByRole("navigation").first();
  const scope = page.getByRole("group", { name: "Scope" }).locator("select");
  const widths = (): Promise<number[]> =>
    scope.evaluateAll((selects) => selects.map((select) => (select as HTMLElement).offsetWidth));
  // A tenant without runs has no scope to choose.
  await startRun(url, "e2e-bar", sleeps(50, 1));
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`${url}/queue`);
  await expect(pages).toContainText("Health");
  await expect(scope).toHaveCount(2);
  const whole = await widths();
  for (const width of [1280, 1279, 1230, 1181, 1180, 800]) {
    await page.setViewportSize({ width, height: 800 });
    const cut = await pages.evaluate((nav) => nav.scrollWidth - nav.clientWidth);
    expect(cut, `pages that are cut at ${width} px`).toBe(0);
  }
  await page.setViewportSize({ width: 390, height: 844 });
  expect(await widths(), "the scopes at 390 px").toEqual(whole);
});
