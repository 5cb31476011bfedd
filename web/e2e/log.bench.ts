import { ask } from "./api";
import { report } from "./figure";
import { longLog, opened, sought } from "./log";
import { expect, startRun, test } from "./page";

/** Runs that wait for an operator, the second with a log of a million lines. */
async function runs(url: string): Promise<[string, string]> {
  const all = await Promise.all([
    startRun(url, "bench-log-short", [longLog(10)]),
    startRun(url, "bench-log-long", [longLog()]),
  ]);
  for (const runId of all) {
    const substatus = async (): Promise<string> =>
      (await ask<{ run: { substatus: string } }>(url, "dev-admin", `{ run(runId: "${runId}") { substatus } }`)).run
        .substatus;
    await expect.poll(substatus, { timeout: 180_000 }).toBe("AWAITING_OPERATOR");
  }
  return all.map((runId) => `${url}/runs/${runId}`) as [string, string];
}

test("ui-log-error", async ({ page, url }) => {
  const [short, long] = await runs(url);
  const floor = await opened(page, short);
  report("ui-log-error", await opened(page, long), floor);
});

test("ui-log-find", async ({ page, url }) => {
  const [short, long] = await runs(url);
  await opened(page, short);
  const floor = await sought(page);
  await opened(page, long);
  report("ui-log-find", await sought(page), floor);
});
