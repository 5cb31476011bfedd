import { tokenOf } from "./dvt";
import { expect, test } from "./page";

/** Asks dvt as one of its principals. */
async function ask(url: string, token: string, query: string): Promise<string> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify({ query }),
  });
  return response.text();
}

function setMode(url: string, mode: string): Promise<string> {
  const input = `{requestId: "e2e-${mode}-${Date.now()}", mode: ${mode}, reason: "e2e maintenance"}`;
  return ask(url, tokenOf("dev-sre"), `mutation { setEngineMode(input: ${input}) { service { mode } } }`);
}

test("a banner on every page says what does not start, why, and what still works", async ({ page, url }) => {
  await page.goto(`${url}/runs`);
  const banner = page.locator("[data-service]");
  await expect(page.getByTestId("sync")).toContainText("Live");
  await expect(banner).toHaveCount(0);
  try {
    expect(await setMode(url, "DRAINED")).toContain('"DRAINED"');
    await expect(banner).toHaveAttribute("data-service", "DRAINED");
    await expect(banner).toContainText("no new run starts");
    await expect(banner).toContainText("Runs in progress continue");
    await expect(banner).toContainText("e2e maintenance");
    for (const path of ["", "start"]) {
      await page.goto(`${url}/${path}`);
      await expect(banner).toHaveAttribute("data-service", "DRAINED");
    }
  } finally {
    await setMode(url, "NORMAL");
  }
  await expect(banner).toHaveCount(0);
});
