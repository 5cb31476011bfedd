// Faults between the browser and the real server: answers that are late, empty or refused, and frames that say that
// they are old.
import type { Page, Route } from "@playwright/test";

export type Fault = "loading" | "empty" | "error" | "forbidden" | "signed-out";

const DENIAL = {
  code: "FORBIDDEN",
  message: "Needs Admin on the whole tenant; you are Viewer.",
  denial: { requiredRole: "ADMIN", whoCould: ["dev-admin"] },
};

function refusal(message: string, extensions: Record<string, unknown>): { json: unknown } {
  return { json: { data: null, errors: [{ message, extensions }] } };
}

/** The answer with every connection in it emptied. */
function emptied(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(emptied);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, key === "edges" ? [] : emptied(inner)]));
}

async function answer(route: Route, fault: Fault): Promise<void> {
  const body = route.request().postData() ?? "";
  // A page without its frame shows none of its states.
  const frame = /query Viewer\b/.test(body);
  switch (fault) {
    case "signed-out":
      return route.fulfill(refusal("You are not signed in.", { code: "UNAUTHENTICATED" }));
    case "loading":
      return frame ? route.fallback() : undefined;
    case "error":
      return frame
        ? route.fallback()
        : route.fulfill(
            refusal("The store did not answer in time.", {
              code: "STORE_UNAVAILABLE",
              correlationId: "c0ffee12-34",
              retryAfterMs: 4_000,
            }),
          );
    case "forbidden":
      return frame ? route.fallback() : route.fulfill(refusal(DENIAL.message, DENIAL));
    case "empty": {
      const response = await route.fetch();
      return route.fulfill({ response, json: emptied(await response.json()) });
    }
  }
}

/** From now on the page's questions end so, until the faults are taken away again. */
export async function inject(page: Page, fault: Fault): Promise<() => Promise<void>> {
  const handler = (route: Route): Promise<void> => answer(route, fault);
  await page.route("**/graphql", handler);
  if (fault !== "empty") await page.routeWebSocket("**/graphql", (socket) => void socket.close({ code: 1011 }));
  return () => page.unrouteAll({ behavior: "ignoreErrors" });
}

/** Every frame of every stream says that it is this. Before the page opens its socket. */
export async function frames(page: Page, sync: "STALE" | "RESYNCING" | "VERIFYING", reason: string): Promise<void> {
  await page.routeWebSocket("**/graphql", (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((message) => server.send(message));
    server.onMessage((message) =>
      socket.send(
        String(message)
          .replaceAll('"sync":"LIVE"', `"sync":"${sync}"`)
          .replaceAll('"reason":null', `"reason":"${reason}"`),
      ),
    );
  });
}
