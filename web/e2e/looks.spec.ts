import { expect, startRun, test } from "./page";

test("a large graph stays whole", async ({ page, url }) => {
  const steps = Array.from({ length: 500 }, (_, i) => ({
    stepId: `model_${i}`,
    type: "NOOP" as const,
    dependsOn: i < 60 ? [] : [`model_${i - 60}`, ...(i % 3 === 0 ? [`model_${i - 51}`] : [])],
    inputs: {},
  }));
  const runId = await startRun(url, "e2e-large", steps);
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByText("of 500 steps")).toBeVisible();
  // A run that moves faster than answers come leaves its actions usable.
  await expect(page.getByRole("button", { name: "Pause…" })).not.toHaveAttribute("aria-disabled", "true");
  await page.getByRole("button", { name: "Fit" }).click();
  await expect(page.getByRole("group", { name: /graph/i }).getByRole("button")).toHaveCount(500);
});
