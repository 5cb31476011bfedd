import { fireEvent, within } from "@testing-library/react";
import { expect, it } from "vitest";
import { description, of, refused, screen, show, vi } from "../testing/render";
import type { Destination } from "./destination";
import { StateOf } from "./DestinationState";
import { DestinationView } from "./DestinationView";
import { rangeOf } from "./range";

const AT = "2026-11-21T02:14:00Z";

function destination(more: Partial<Destination>): Destination {
  return {
    name: "on-call",
    kind: "WEBHOOK",
    address: "https://hooks.example.org",
    state: "SENDING",
    why: "It accepts messages.",
    since: AT,
    disabledBy: null,
    beginsAt: null,
    lastSentAt: AT,
    lastError: null,
    sent: 1200,
    failed: 3,
    deadLetters: 0,
    droppedDeadLetters: 0,
    missedRuns: 0,
    waiting: 0,
    oldestWaitingAt: null,
    route: { text: "every event and every alert" },
    ...more,
  };
}

it.each([
  ["accepts messages", {}, /^● Accepts messages; the last one 2026/],
  ["had none yet", { lastSentAt: null, since: null }, /^● Ready; it has had no message yet$/],
  [
    "refuses every message",
    { lastSentAt: null, since: null, sent: 0, deadLetters: 2950, lastError: "the destination answered 422" },
    /^✕ Refuses every message: the destination answered 422; 2,950 messages became dead letters$/,
  ],
  [
    "refused one message",
    { deadLetters: 1 },
    /^● Accepts messages; the last one 2026.*; 1 message became a dead letter$/,
  ],
  [
    "fails",
    { state: "FAILING", lastError: "connection refused", waiting: 214, oldestWaitingAt: AT },
    /^✕ Has accepted nothing since 2026-11-21 02:14:00 UTC: connection refused; 214 messages wait, the oldest is from/,
  ],
  [
    "missed runs",
    { missedRuns: 12 },
    /^● Accepts messages; the last one 2026.*; 12 runs deleted before it took all messages$/,
  ],
  [
    "was disabled by a person",
    { state: "DISABLED", disabledBy: "sam", why: "too many calls" },
    /^○ Disabled by sam, 2026-11-21 02:14:00 UTC: too many calls$/,
  ],
  [
    "was disabled by dvt",
    { state: "DISABLED", why: "It answered 410." },
    /^○ Disabled by dvt, 2026-11-21 .*: It answered 410\.$/,
  ],
  [
    "has no process",
    { state: "WAITING", why: "No process works for it." },
    /^✕ Nobody sends: No process works for it\.$/,
  ],
] as const)("a destination that %s says so in a sentence", async (_, change, says) => {
  const { container } = await show(<StateOf destination={destination(change)} />);
  expect(container.textContent).toMatch(says);
});

const ORDER = {
  id: "o1",
  kind: "TEST",
  state: "DONE",
  actor: "ana",
  reason: null,
  at: AT,
  endedAt: AT,
  messages: 1,
  sent: 1,
  failed: 0,
  error: null,
  since: null,
  until: null,
};
const CHANGE = { action: "X", requestId: "q", actor: "ana", at: AT, version: null, versionBefore: null };
const LETTER = {
  id: "7",
  messageId: "m-7",
  type: "RunFailed",
  at: AT,
  tenantId: "acme",
  runId: "0123456789abcdef",
  tries: 4,
  error: "422: unknown field",
  message: { type: "RunFailed", data: { planId: "nightly" } },
};

interface Answers {
  destination?: Partial<Destination>;
  orders?: unknown[];
  letters?: unknown[];
  test?: unknown;
  preview?: unknown;
  actions?: readonly string[];
}

async function page({ destination: more = {}, orders = [], letters = [], test, preview, actions }: Answers = {}) {
  return await show(<DestinationView name="on-call" />, {
    viewer: { tenantId: "acme", actions: new Set(actions ?? ["SET_ENGINE_MODE"]) as never },
    answers: {
      Destination: { destination: { ...destination(more), orders } },
      DeadDeliveries: {
        deadDeliveries: {
          pageInfo: { endCursor: null, hasNextPage: false },
          edges: letters.map((node) => ({ node })),
        },
      },
      TestDestination: { testDestination: { order: test, change: CHANGE } },
      PreviewReplay: { previewReplay: preview },
      ReplayDestination: { replayDestination: { order: ORDER, change: CHANGE } },
      RedriveDeliveries: { redriveDeliveries: { order: ORDER, change: CHANGE } },
      DisableDestination: { disableDestination: { change: CHANGE } },
      RightHolders: { rightHolders: [{ needs: "Needs the role SRE.", names: ["sam"], more: false }] },
    },
  });
}

it.each([
  ["accepted", { ...ORDER }, "The test was accepted."],
  [
    "refused",
    { ...ORDER, state: "FAILED", error: "connection refused" },
    "The test was not accepted: connection refused",
  ],
  ["under way", { ...ORDER, state: "RUNNING" }, "The test is still under way; Orders shows what becomes of it."],
])("says of a test that it was %s", async (_, test, says) => {
  const { user } = await page({ test });
  await user.click(await screen.findByRole("button", { name: "Send a test" }));
  expect(await screen.findByText(says)).toBeTruthy();
});

it("counts what a replay would send before it can be sent, and sends the same range", async () => {
  const { user, sent } = await page({ preview: { messages: 1234, more: false, first: AT, last: AT } });
  await user.click(await screen.findByRole("button", { name: "Replay…" }));
  const dialog = within(screen.getByRole("dialog"));
  const send = dialog.getByRole("button", { name: "Replay" });
  await user.type(dialog.getByLabelText(/^Reason/), "the receiver lost a night");
  expect(send).toHaveProperty("disabled", true);
  fireEvent.change(dialog.getByLabelText(/^From \(UTC\)/), { target: { value: "2026-11-21T02:00" } });
  await user.selectOptions(dialog.getByLabelText("What"), "Alerts");
  expect(await dialog.findByText("1,234 messages would be sent:")).toBeTruthy();
  await user.click(send);
  const range = { name: "on-call", since: "2026-11-21T02:00:00.000Z", until: null, filter: { topics: ["alerts"] } };
  await vi.waitFor(() => expect(of(sent, "ReplayDestination")).toHaveLength(1));
  expect(of(sent, "PreviewReplay").at(-1)).toEqual(range);
  expect(of(sent, "ReplayDestination")).toMatchObject([{ input: { ...range, reason: "the receiver lost a night" } }]);
});

it("does not replay an empty range", async () => {
  const { user } = await page({ preview: { messages: 0, more: false, first: null, last: null } });
  await user.click(await screen.findByRole("button", { name: "Replay…" }));
  const dialog = within(screen.getByRole("dialog"));
  await user.type(dialog.getByLabelText(/^Reason/), "why not");
  fireEvent.change(dialog.getByLabelText(/^From/), { target: { value: "2026-11-21T02:00" } });
  expect(await dialog.findByText("No message is in this range.")).toBeTruthy();
  expect(dialog.getByRole("button", { name: "Replay" })).toHaveProperty("disabled", true);
});

it("shows the content of a dead letter, and redrives it or all", async () => {
  const { user, sent } = await page({ destination: { deadLetters: 1 }, letters: [LETTER] });
  expect((await screen.findByRole("link", { name: "01234567" })).getAttribute("href")).toBe("/runs/0123456789abcdef");
  await user.click(screen.getByRole("button", { name: "The message m-7" }));
  expect(screen.getByLabelText("Content").textContent).toContain('"planId": "nightly"');
  await user.click(screen.getByRole("button", { name: "Close" }));
  await user.click(screen.getByRole("button", { name: "Redrive the message m-7" }));
  await user.type(screen.getByLabelText(/^Reason/), "it was mended");
  await user.click(screen.getByRole("button", { name: "Redrive" }));
  await vi.waitFor(() => expect(of(sent, "RedriveDeliveries")).toHaveLength(1));
  await user.click(await screen.findByRole("button", { name: "Redrive all…" }));
  expect(screen.getByRole("dialog", { name: "Redrive 1 dead letter" })).toBeTruthy();
  await user.type(screen.getByLabelText(/^Reason/), "it was mended");
  await user.click(screen.getByRole("button", { name: "Redrive" }));
  await vi.waitFor(() => expect(of(sent, "RedriveDeliveries")).toHaveLength(2));
  expect(of(sent, "RedriveDeliveries")).toMatchObject([{ input: { ids: ["7"] } }, { input: { all: true } }]);
});

it("names no run of another tenant as a link", async () => {
  await page({ letters: [{ ...LETTER, tenantId: "globex" }] });
  expect(await screen.findByText("globex 01234567")).toBeTruthy();
  expect(screen.queryByRole("link", { name: /01234567/ })).toBeNull();
});

it("says what became of each order", async () => {
  const replay = {
    ...ORDER,
    kind: "REPLAY",
    state: "RUNNING",
    messages: 500,
    sent: 120,
    failed: 2,
    since: AT,
    until: AT,
  };
  await page({ orders: [replay, { ...ORDER, id: "o2", state: "FAILED", error: "no route to host" }] });
  const table = await screen.findByRole("region", { name: "Orders" });
  expect(table.textContent).toContain("Under way: 120 of 500 messages accepted, 2 not");
  expect(table.textContent).toContain("Failed: no route to host");
});

it("disables with a reason, and says to those who may not who may", async () => {
  const { user, sent, unmount } = await page();
  await user.click(await screen.findByRole("button", { name: "Disable…" }));
  const dialog = within(screen.getByRole("alertdialog", { name: "Disable on-call" }));
  await user.type(dialog.getByLabelText(/^Reason/), "moving it");
  await user.click(dialog.getByRole("button", { name: "Disable" }));
  await vi.waitFor(() => expect(of(sent, "DisableDestination")).toMatchObject([{ input: { reason: "moving it" } }]));
  unmount();
  await page({ actions: [] });
  const button = await screen.findByRole("button", { name: "Send a test" });
  await vi.waitFor(() => expect(description(button)).toContain("sam"));
});

it("a viewer of a tenant is told that the page is not theirs", async () => {
  await show(<DestinationView name="on-call" />, {
    answers: {
      Destination: refused("FORBIDDEN", "Only operators may see this."),
      RightHolders: { rightHolders: [] },
    },
  });
  expect(await screen.findByText(/Only operators may see this/)).toBeTruthy();
});

it("reads the times of a range in the zone of the page", () => {
  expect(rangeOf("2026-11-21T02:00", "", "utc")).toEqual({ since: "2026-11-21T02:00:00.000Z", until: null });
  expect(rangeOf("", "", "utc")).toBeNull();
  expect(rangeOf("2026-11-21T02:00", "2026-11-21T01:00", "utc"), "an end before the begin").toBeNull();
  expect(rangeOf("2026-11-21T02:00", "", "local")?.since).toBe(new Date("2026-11-21T02:00").toISOString());
});
