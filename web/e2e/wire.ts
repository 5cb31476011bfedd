// The connection between the page and the real dvt, with a hand on it: cut, mended, and frames lost or changed on their
// way.
import type { Page, Request, WebSocketRoute } from "@playwright/test";

/** A frame as it lies on the wire; `null` loses it, an array sends others in its place. */
type Meddle = (frame: Frame) => Frame | null | readonly Frame[];

export interface Frame {
  id?: string;
  type: string;
  payload?: { query?: string; variables?: Record<string, unknown>; data?: Record<string, unknown> };
}

export interface Wire {
  /** Every socket and request fails until mend. */
  cut: () => Promise<void>;
  mend: () => void;
  /** No page opens with the answer of a query any more: its stream begins with the whole run. */
  streamOnly: () => void;
  /** Changes what the server says from now on. */
  meddle: (how: Meddle) => void;
  /** What the page subscribed to, in order. */
  subscriptions: { name: string; variables: Record<string, unknown> }[];
}

const untouched: Meddle = (frame) => frame;

export async function openWire(page: Page): Promise<Wire> {
  let down = false;
  let streamed = false;
  let how = untouched;
  const sockets = new Set<WebSocketRoute>();
  const subscriptions: Wire["subscriptions"] = [];
  const note = (query: string, variables: Record<string, unknown>): void => {
    const name = /\bsubscription (\w+)/.exec(query)?.[1];
    if (name !== undefined) subscriptions.push({ name, variables: { ...variables } });
  };
  await page.routeWebSocket(/\/graphql$/, (socket) => {
    if (down) {
      void socket.close({ code: 1011 });
      return;
    }
    const server = socket.connectToServer();
    sockets.add(socket);
    socket.onMessage((message) => {
      // The page speaks graphql-transport-ws.
      const frame = JSON.parse(String(message)) as Frame;
      if (frame.type === "subscribe") note(frame.payload?.query ?? "", frame.payload?.variables ?? {});
      server.send(message);
    });
    server.onMessage((message) => {
      const said = how(JSON.parse(String(message)) as Frame);
      const frames: readonly Frame[] = said === null ? [] : "type" in said ? [said] : said;
      for (const frame of frames) socket.send(JSON.stringify(frame));
    });
  });
  const stop = (request: Request): boolean => down && request.url().endsWith("/graphql");
  await page.route("**/graphql", (route) => {
    const request = route.request();
    if (stop(request)) return route.abort("connectionfailed");
    const body: unknown = request.postDataJSON();
    if (streamed && /query Run(Opening|Whole)\b/.test(request.postData() ?? ""))
      return route.fulfill({
        json: {
          data: null,
          errors: [{ message: "The store did not answer in time.", extensions: { code: "STORE_UNAVAILABLE" } }],
        },
      });
    if (
      typeof body === "object" &&
      body !== null &&
      "query" in body &&
      typeof body.query === "string" &&
      "variables" in body
    )
      note(body.query, body.variables as Record<string, unknown>);
    return route.fallback();
  });
  return {
    cut: async () => {
      down = true;
      const open = [...sockets];
      sockets.clear();
      await Promise.all(open.map((socket) => socket.close({ code: 1011 })));
    },
    mend: () => {
      down = false;
    },
    streamOnly: () => {
      streamed = true;
    },
    meddle: (next) => {
      how = next;
    },
    subscriptions,
  };
}

/** The update of a run that a frame carries. */
export function updateOf(frame: Frame): Record<string, unknown> | null {
  const update = frame.type === "next" ? frame.payload?.data?.["runUpdates"] : undefined;
  return typeof update === "object" && update !== null ? (update as Record<string, unknown>) : null;
}

/** The same frame with other things said of the run. */
export function withUpdate(frame: Frame, change: Record<string, unknown>): Frame {
  const update = updateOf(frame);
  return { ...frame, payload: { data: { runUpdates: { ...update, ...change } } } };
}
