// What a browser can do to `dvt dev` that is not signed in, or that shows a page of somebody else.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { BrowserContext, Page } from "@playwright/test";
import { ask } from "./api";
import { link, tokenOf } from "./dvt";
import { violationsOfBoth } from "./look";
import { cancelRun, expect, signIn, sleeps, startRun, status, test } from "./page";

/** Serves what a hostile page needs from another port of this machine. */
async function hostile(html: string, use: (origin: string) => Promise<void>): Promise<void> {
  const server: Server = createServer((_, response) =>
    response.writeHead(200, { "content-type": "text/html" }).end(html),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

async function signedIn(context: BrowserContext, url: string): Promise<boolean> {
  return (await context.cookies(url)).some(({ name }) => name.startsWith("dvt_session"));
}

/** The log of a run, and how many runs there are. */
async function stateOf(url: string, runId: string): Promise<string> {
  const query =
    "query S($runId: String!) { runs(first: 50) { edges { node { runId } } } run(runId: $runId) { status signals(first: 50) { edges { node { signalId } } } } }";
  return JSON.stringify(await ask(url, "dev-admin", query, { runId }));
}

/** Each attempt of a page, by name: what it got. It knows the token of a name only, which was enough once. */
async function attack(page: Page, url: string, runId: string, key: string): Promise<Record<string, string>> {
  return page.evaluate(
    async ([target, run, once]) => {
      const pause = (id: string): string =>
        JSON.stringify({
          query: `mutation { signalRun(input: {runId: "${run}", signalId: "${id}", signal: {pause: {}}}) { signal { decision } } }`,
        });
      const got: Record<string, string> = {};
      const tried = async (name: string, what: Promise<unknown>): Promise<void> => {
        got[name] = await what.then(
          String,
          (error: unknown) => `refused: ${error instanceof Error ? error.name : String(error)}`,
        );
      };
      const sent = (path: string, init: RequestInit): Promise<string> =>
        fetch(`${target}${path}`, init).then(async (r) => `${r.type} ${r.status} ${await r.text()}`);
      await tried(
        "fetch with the cookie",
        sent("/graphql", {
          method: "POST",
          credentials: "include",
          headers: { "content-type": "application/json" },
          body: pause("evil-cors"),
        }),
      );
      await tried(
        "fetch with a name",
        sent("/graphql", {
          method: "POST",
          headers: { authorization: "Bearer dev-engineer", "content-type": "application/json" },
          body: pause("evil-name"),
        }),
      );
      await tried(
        "fetch without looking",
        sent("/graphql", {
          method: "POST",
          mode: "no-cors",
          credentials: "include",
          headers: { "content-type": "text/plain" },
          body: pause("evil-blind"),
        }),
      );
      await tried(
        "the session",
        sent("/dev/session", {
          method: "POST",
          mode: "no-cors",
          credentials: "include",
          body: '{"principal":"dev-admin"}',
        }),
      );
      await tried("the key", sent(`/?key=${once}`, { mode: "no-cors", credentials: "include" }));
      await tried(
        "socket",
        new Promise((resolve) => {
          const socket = new WebSocket(`${target.replace("http", "ws")}/graphql`, "graphql-transport-ws");
          const said: string[] = [];
          socket.addEventListener("open", () => {
            said.push("open");
            socket.send(JSON.stringify({ type: "connection_init", payload: { Authorization: "Bearer dev-engineer" } }));
            socket.send(
              JSON.stringify({ type: "subscribe", id: "1", payload: JSON.parse(pause("evil-socket")) as unknown }),
            );
          });
          socket.addEventListener("message", (message) => said.push(String(message.data)));
          socket.addEventListener("close", () => resolve(`closed after: ${said.join(" ")}`));
          setTimeout(() => socket.close(), 3_000);
        }),
      );
      const loaded = (tag: "img" | "iframe", path: string): Promise<unknown> =>
        new Promise((resolve) => {
          const element = Object.assign(document.createElement(tag), { src: `${target}${path}` });
          element.addEventListener("load", () => resolve("loaded"));
          element.addEventListener("error", () => resolve("error"));
          document.body.append(element);
        });
      const query = encodeURIComponent("{ viewer { principal } }");
      await tried("image", loaded("img", `/graphql?query=${query}`));
      await tried("image of the key", loaded("img", `/?key=${once}`));
      await tried("frame of the key", loaded("iframe", `/?key=${once}`));
      const form = Object.assign(document.createElement("form"), {
        method: "post",
        action: `${target}/graphql`,
        enctype: "text/plain",
        target: "into",
      });
      const frame = Object.assign(document.createElement("iframe"), { name: "into" });
      document.body.append(frame, form);
      form.append(
        Object.assign(document.createElement("input"), {
          name: pause("evil-form").slice(0, -1) + ',"x":"',
          value: '"}',
        }),
      );
      await tried(
        "form",
        new Promise((resolve) => (frame.addEventListener("load", () => resolve("loaded")), form.submit())),
      );
      return got;
    },
    [url, runId, key] as const,
  );
}

test("a page of another port of this machine does nothing by the browser of somebody who is signed in", async ({
  page,
  context,
  browser,
  url,
}) => {
  const runId = await startRun(url, "e2e-hostile", sleeps(120_000, 1));
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  const before = await stateOf(url, runId);
  const once = await link("dev-engineer");
  const key = new URL(once).searchParams.get("key") ?? "";
  const cookies = JSON.stringify(await context.cookies(url));

  await hostile("<!doctype html><title>a page of somebody else</title>", async (origin) => {
    const answers = new Map<string, number>();
    const evil = await context.newPage();
    evil.on("response", (response) => {
      if (response.url().startsWith(url))
        answers.set(`${response.request().method()} ${new URL(response.url()).pathname}`, response.status());
    });
    await evil.goto(origin);
    const got = await attack(evil, url, runId, key);
    expect.soft(got).toMatchObject({
      "fetch with the cookie": "refused: TypeError",
      "fetch with a name": "refused: TypeError",
      socket: "closed after: ",
      image: "error",
      "image of the key": "error",
    });
    for (const [what, status] of answers) expect.soft(status, what).not.toBeLessThan(400);
    expect.soft(answers.get("POST /graphql")).toBe(403);
    // A link of another page may show a page of ours in a window of its own, and no more than that.
    await evil.goto(`${origin}/`);
    await evil.evaluate((address) => location.assign(address), `${url}/graphql?query=%7Bviewer%7Bprincipal%7D%7D`);
    await expect(evil.locator("body")).toContainText("A page of another origin sent this");
    await evil.close();
  });

  expect(await stateOf(url, runId)).toBe(before);
  expect(JSON.stringify(await context.cookies(url))).toBe(cookies);
  // The key is still good: none of these requests used it up.
  const other = await browser.newContext();
  await (await other.newPage()).goto(once);
  expect(await signedIn(other, url)).toBe(true);
  await other.close();
  await cancelRun(url, runId);
});

test("a browser signs in by the link, once, and the key leaves the address; without it, it is told how", async ({
  page,
  context,
  url,
}) => {
  await context.clearCookies();
  await page.goto(`${url}/runs`);
  const sentence =
    "Open the link that dvt dev printed when it started, or run dvt dev link for a new one, with the same --data.";
  await expect(page.getByText(sentence)).toBeVisible();
  expect(await violationsOfBoth(page)).toEqual([]);
  expect(await signedIn(context, url)).toBe(false);

  const once = await link("dev-viewer");
  await page.goto(once.replace("/?", "/runs?status=FAILED&"));
  await expect(page.getByRole("button", { name: "Principal: dev-viewer" })).toBeVisible();
  expect(page.url()).not.toContain("key=");
  expect(page.url()).toContain("status=FAILED");
  await page.goBack().catch(() => null);
  expect(page.url()).not.toContain("key=");

  await context.clearCookies();
  await page.goto(once);
  await expect(page.getByRole("heading", { name: "This link does not sign you in" })).toBeVisible();
  await expect(page.getByText("dvt dev link")).toBeVisible();
  expect(await violationsOfBoth(page)).toEqual([]);
  expect(await signedIn(context, url)).toBe(false);

  await context.addCookies([{ name: "dvt_session", value: tokenOf("dev-engineer"), url }]);
  await page.goto(`${url}/runs`);
  await expect(page.getByText(sentence)).toBeVisible();
  await signIn(context);
  await page.reload();
  await expect(page.getByRole("button", { name: "Principal: dev-engineer" })).toBeVisible();
});
