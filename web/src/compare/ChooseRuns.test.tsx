import { expect, it } from "vitest";
import { header } from "../testing/fixtures";
import { description, of, screen, show, vi } from "../testing/render";
import { ChooseRuns } from "./ChooseRuns";
import { useRunRef } from "./runRef";

const wire = (runId: string, over: object = {}): object => {
  const at = "2026-11-27T20:00:00Z";
  return {
    node: { ...header({ runId }), createdAt: at, startedAt: at, completedAt: at, retryDeadline: null, ...over },
  };
};
const runs = (...edges: object[]): object => ({ runs: { edges, pageInfo: { hasNextPage: false, endCursor: null } } });

function Chooser({ a, b }: { a: string; b: string }) {
  return <ChooseRuns a={a} b={b} refs={{ a: useRunRef(a, true), b: useRunRef(b, true) }} />;
}

/** The run of the address, runs of a plan, and nothing else. */
const Runs = ({ filter }: { filter: { text?: string; planId?: string } | null }): object =>
  filter?.text === "57dd826d" ? runs(wire("57dd826d")) : filter?.planId ? runs(wire("aaaa1111")) : runs();

it("says at the field of a run that it does not exist, and offers runs of the plan of the other", async () => {
  const { sent, user, search } = await show(<Chooser a="dead" b="57dd826d" />, {
    answers: { Runs },
    path: "/compare",
  });
  const a = screen.getByLabelText(/^Run A/);
  await vi.waitFor(() => expect(description(a)).toBe("No run has an id that begins with dead, or you cannot see it."));
  expect(description(screen.getByLabelText(/^Run B/))).toBe("");
  await vi.waitFor(() => expect(of(sent, "Runs").at(-1)).toMatchObject({ filter: { planId: "nightly" } }));
  await user.click(await screen.findByRole("button", { name: "Use nightly aaaa1111 as run A" }));
  await vi.waitFor(() => expect(search()).toEqual({ a: "aaaa1111", b: "57dd826d" }));
});

it("takes the last green run of the plan of the run that is known", async () => {
  const { user, search } = await show(<Chooser a="" b="57dd826d" />, {
    answers: { Runs: runs(wire("57dd826d"), wire("aaaa1111")) },
    path: "/compare",
  });
  await user.click(await screen.findByRole("button", { name: "Last green of nightly" }));
  await vi.waitFor(() => expect(search()).toMatchObject({ b: "57dd826d", a: /^last green of nightly in / }));
});
