// A destination that refuses, fails, and accepts again: its page says so, tests it, redrives, replays and switches it.
import { chmodSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { destinationsOf, load } from "./dvt";
import { expectFits, violationsOfBoth } from "./look";
import { expect, signIn, sleeps, startRun, test } from "./page";

interface Received {
  id: string;
  replayed: boolean;
  type: string;
}

/** What the receiver answers, and the messages that it accepted. */
const receiver = { status: 500, accepted: [] as Received[] };
let server: Server;

test.beforeAll(async () => {
  server = createServer((request, response) => {
    let body = "";
    request.on("data", (part: Buffer) => (body += part.toString()));
    request.on("end", () => {
      const { id, replayed = false, type } = JSON.parse(body) as { id: string; replayed?: boolean; type: string };
      if (receiver.status < 300) receiver.accepted.push({ id, replayed, type });
      response.writeHead(receiver.status).end(receiver.status < 300 ? "" : "not today");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});

test.afterAll(() => server.close());

test("a destination says what it does, is tested, redriven, replayed after a preview, and switched", async ({
  page,
  url,
}) => {
  const { data, own } = load();
  test.skip(own === null, "a dvt that was started elsewhere has its own file of destinations");
  const secret = join(tmpdir(), `dvt-e2e-secret-${process.pid}`);
  writeFileSync(secret, `whsec_${Buffer.alloc(32, 7).toString("base64")}\n`);
  chmodSync(secret, 0o600);
  const { port } = server.address() as AddressInfo;
  const entry = { name: "billing", kind: "webhook", url: `http://127.0.0.1:${port}/dvt`, secrets: [{ file: secret }] };
  const route = { topics: ["events"], types: ["RunStarted", "RunCompleted"] };
  writeFileSync(destinationsOf(data), JSON.stringify({ destinations: [{ ...entry, route }] }));

  await signIn(page.context(), "dev-sre");
  await page.goto(`${url}/health`);
  await page.getByRole("link", { name: "Deliveries" }).click();
  await page.getByRole("link", { name: "billing" }).press("Enter", { timeout: 60_000 });
  const state = page.getByRole("main");
  const began = new Date().toISOString().slice(0, 19);
  await startRun(url, "delivered", sleeps(50, 1));
  await expect(state).toContainText(/Has accepted nothing since .* 500.*messages? waits?/, { timeout: 60_000 });
  await page.getByRole("button", { name: "Send a test" }).press("Enter");
  await expect(page.getByText(/^The test was not accepted: .*500/)).toBeVisible();

  receiver.status = 422;
  const letters = page.getByRole("region", { name: "Dead letters" }).getByRole("row");
  await expect(letters).toHaveCount(3, { timeout: 90_000 });
  await expect(letters.nth(1)).toContainText("422");
  receiver.status = 200;
  await page.getByRole("button", { name: "Send a test" }).press("Enter");
  await expect(page.getByText("The test was accepted.")).toBeVisible();
  receiver.accepted.length = 0;
  await page
    .getByRole("button", { name: /^The message / })
    .first()
    .click();
  const dialog = page.locator("dialog[open]");
  await expect(dialog).toContainText(/"(?:RunStarted|RunCompleted)"/);
  expect(await violationsOfBoth(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Redrive all…" }).press("Enter");
  await page.keyboard.type("the receiver was mended");
  await page.keyboard.press("Enter");
  await expect.poll(() => receiver.accepted.length, { timeout: 60_000 }).toBe(2);
  await expect(page.getByText("There is none: it accepted every message, or they still wait.")).toBeVisible();
  await expect(state).toContainText("Accepts messages; the last one");
  const ids = receiver.accepted.map(({ id }) => id);
  receiver.accepted.length = 0;

  await page.getByRole("button", { name: "Replay…" }).press("Enter");
  await expect(dialog.getByRole("button", { name: "Replay" })).toBeDisabled();
  await dialog.getByLabel(/^From \(UTC\)/).fill(began);
  await dialog.getByLabel(/^Reason/).fill("the receiver lost its table");
  await expect(dialog).toContainText("2 messages would be sent");
  expect(await violationsOfBoth(page)).toEqual([]);
  expect(receiver.accepted).toEqual([]);
  await dialog.getByRole("button", { name: "Replay" }).press("Enter");
  await expect.poll(() => receiver.accepted.length, { timeout: 60_000 }).toBe(2);
  expect(receiver.accepted.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  expect(receiver.accepted.every(({ replayed }) => replayed)).toBe(true);
  const orders = page.getByRole("region", { name: "Orders" });
  await expect(orders).toContainText("Done: 2 of 2 messages accepted");
  await expect(orders).toContainText("the receiver was mended");

  await page.getByRole("button", { name: "Disable…" }).press("Enter");
  await page.keyboard.type("they move it");
  await page.keyboard.press("Enter");
  await expect(state).toContainText(/Disabled by dev-sre, .*: they move it/);
  await page.waitForTimeout(6_000); // it is in force within 5 s
  receiver.accepted.length = 0;
  await startRun(url, "delivered", sleeps(50, 1));
  await page.goto(`${url}/deliveries`);
  await expect(page.getByRole("row").filter({ hasText: "billing" })).toContainText("Disabled by dev-sre");
  for (const width of [1440, 1280, 390]) {
    await page.setViewportSize({ width, height: 800 });
    await expectFits(page, `the deliveries at ${width} px`);
  }
  expect(await violationsOfBoth(page)).toEqual([]);
  await page.getByRole("link", { name: "billing" }).click();
  await expect(page.getByRole("button", { name: "Enable…" })).toBeVisible();
  await expectFits(page, "the destination at 390 px");
  expect(await violationsOfBoth(page)).toEqual([]);
  expect(receiver.accepted).toEqual([]);
  await page.getByRole("button", { name: "Enable…" }).press("Enter");
  await page.keyboard.type("it moved");
  await page.keyboard.press("Enter");
  await expect.poll(() => receiver.accepted.length, { timeout: 60_000 }).toBe(2);
  await expect(state).toContainText("Accepts messages; the last one", { timeout: 60_000 });
});

test("a viewer of a tenant sees no destination", async ({ page, url }) => {
  await signIn(page.context(), "dev-viewer");
  await page.goto(`${url}/deliveries`);
  await expect(page.getByText("You may not see this")).toBeVisible();
});
