import { useState } from "react";
import { expect, it } from "vitest";
import { RUN } from "../testing/fixtures";
import { of, screen, show, vi } from "../testing/render";
import { LogView } from "./LogView";

const OF = { runId: RUN, stepId: "stg_orders", attempt: 2 };
const LINES = ["start", "ERROR one", "more", "ERROR two"].map((text, i) => ({
  no: i + 1,
  at: "2026-11-21T03:08:00Z",
  stream: "out",
  engineAttemptId: 1,
  text,
}));

const ANSWERS = {
  StepLogBegin: { stepLog: { totalLines: 4, missing: null, errorLine: 2 } },
  StepLog: ({ find }: { find?: string }) => ({
    stepLog: {
      lines: LINES,
      totalLines: 4,
      missing: null,
      matches: find === "more" ? [3] : find === "ERROR" ? [2, 4] : [],
      totalMatches: find === "more" ? 1 : find === "ERROR" ? 2 : 0,
    },
  }),
};

type Open = (to: { line?: number | undefined; q?: string | undefined }) => void;

async function log(props: { line?: number; find?: string; running?: boolean } = {}) {
  const open = vi.fn<Open>();
  const view = await show(
    <LogView
      of={OF}
      running={props.running ?? false}
      failed
      line={props.line ?? null}
      find={props.find ?? ""}
      full={false}
      open={open}
    />,
    { answers: ANSWERS },
  );
  await screen.findByRole("region", { name: "Log" });
  return { ...view, open };
}

it("goes to the next line that mentions an error by e", async () => {
  const { user, open } = await log({ line: 2 });
  await user.keyboard("e");
  await vi.waitFor(() => expect(open).toHaveBeenLastCalledWith({ line: 4 }));
});

it("wraps by w, follows by F and finds by /", async () => {
  const { user } = await log({ running: true });
  await user.keyboard("w");
  expect(screen.getByRole("button", { name: "Wrap", pressed: true })).toBeDefined();
  const follow = screen.getByRole("button", { name: "Follow" });
  const before = follow.getAttribute("aria-pressed");
  await user.keyboard("F");
  expect(follow.getAttribute("aria-pressed")).not.toBe(before);
  await user.keyboard("/");
  expect(document.activeElement).toBe(screen.getByRole("searchbox", { name: "Find in log" }));
});

it("searches the whole log on the server, and walks the matches", async () => {
  const { user, open, sent } = await log({ find: "ERROR" });
  await vi.waitFor(() => expect(screen.getByTestId("matches").textContent).toBe("1 of 2"));
  expect(open).toHaveBeenLastCalledWith({ line: 2 });
  await user.click(screen.getByRole("button", { name: "Next match" }));
  expect(open).toHaveBeenLastCalledWith({ line: 4 });
  expect(of(sent, "StepLog").filter(({ find }) => find === "ERROR")).toHaveLength(1);
});

it("copies a link to the line at which the failure begins", async () => {
  const { user } = await log();
  await user.click(screen.getByRole("button", { name: "Copy link to line 2" }));
  const link = new URL(await navigator.clipboard.readText());
  expect(Object.fromEntries(link.searchParams)).toEqual({ tab: "log", attempt: "2", line: "2" });
});

it("closes the list of errors by Esc, and nothing around it", async () => {
  const { user } = await log();
  await user.click(screen.getByRole("button", { name: "List of errors" }));
  expect(await screen.findByRole("list", { name: "Lines that mention an error" })).toBeDefined();
  const heard = vi.fn<(event: KeyboardEvent) => void>();
  addEventListener("keydown", heard);
  await user.keyboard("{Escape}");
  removeEventListener("keydown", heard);
  expect(screen.queryByRole("list", { name: "Lines that mention an error" })).toBeNull();
  expect(heard.mock.calls.map(([event]) => event.defaultPrevented)).toEqual([true]);
});

it("links to the whole log as plain text, which others can open", async () => {
  await log();
  expect(screen.getByRole("link", { name: "Raw" }).getAttribute("href")).toBe(`/logs/${RUN}/stg_orders/2`);
  expect(screen.getByRole("link", { name: "Download" }).getAttribute("href")).toBe(
    `/logs/${RUN}/stg_orders/2?download`,
  );
  expect(screen.getByRole("link", { name: "Fill the window" }).getAttribute("href")).toContain("full=yes");
});

it("goes to the error of an attempt that fails while its log is followed", async () => {
  let ended = false;
  function Attempt() {
    const [running, setRunning] = useState(true);
    const end = (): void => {
      ended = true;
      setRunning(false);
    };
    return (
      <>
        <button onClick={end}>End</button>
        <LogView of={OF} running={running} failed={!running} line={null} find="" full={false} open={() => {}} />
      </>
    );
  }
  const { user } = await show(<Attempt />, {
    answers: {
      ...ANSWERS,
      StepLogBegin: () => ({ stepLog: { totalLines: 4, missing: null, errorLine: ended ? 2 : null } }),
    },
  });
  await screen.findByRole("region", { name: "Log" });
  expect(screen.queryByRole("button", { name: /^Copy link/ })).toBeNull();
  await user.click(screen.getByRole("button", { name: "End" }));
  expect(await screen.findByRole("button", { name: "Copy link to line 2" })).toBeDefined();
});
