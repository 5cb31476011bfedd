import { expect, it } from "vitest";
import { RUN } from "../testing/fixtures";
import { description, of, refused, screen, show, vi } from "../testing/render";
import { Decide } from "./Decide";
import { InboxList } from "./InboxList";
import type { Approval, Item } from "./items";

function item(over: Partial<Item> = {}): Item {
  return {
    key: RUN,
    kind: "approval",
    runId: RUN,
    stepId: null,
    name: "nightly@1.5",
    projectId: "shop",
    environmentId: "prod",
    by: "ana",
    since: Date.now() - 840_000,
    until: null,
    instructions: null,
    refusal: null,
    approval: { runSeq: 4 } as Approval,
    task: null,
    ...over,
  };
}

it("offers a yes and a no for each item, or says why the viewer may not decide", async () => {
  const decide = vi.fn<(item: Item, yes: boolean) => void>();
  const mine = item();
  const other = item({ key: "x", kind: "task", stepId: "check", name: "check", refusal: "You started this run." });
  const { user } = await show(<InboxList items={[mine, other]} decide={decide} />);
  expect(screen.getAllByRole("listitem")[0]?.textContent).toContain("Approvenightly@1.5 01KAHW3V");
  await user.click(screen.getByRole("button", { name: "Approve: 01KAHW3V" }));
  await user.click(screen.getByRole("button", { name: "Decline: 01KAHW3V" }));
  expect(decide.mock.calls).toEqual([
    [mine, true],
    [mine, false],
  ]);
  const complete = screen.getByRole("button", { name: "Complete: check" });
  expect(description(complete)).toBe("You started this run.");
});

it("declines only with a reason, and sends the decision with its position", async () => {
  const done = vi.fn<() => void>();
  const { user, sent } = await show(<Decide item={item()} yes={false} done={done} close={() => {}} />, {
    answers: { Approve: {}, PlanDiff: { run: { planDiff: null } } },
  });
  expect(screen.getByText("The run ends as cancelled, for good.")).toBeDefined();
  const button = screen.getByRole<HTMLButtonElement>("button", { name: "Decline" });
  expect(button.disabled).toBe(true);
  await user.type(screen.getByLabelText(/^Reason/), "wrong day");
  await user.click(button);
  await vi.waitFor(() => expect(done).toHaveBeenCalledOnce());
  expect(of(sent, "Approve")[0]).toMatchObject({
    input: { runId: RUN, decision: "REJECT", reason: "wrong day", expectedRunSeq: 4 },
  });
});

it("sends one request however often it is clicked", async () => {
  const { user, sent } = await show(<Decide item={item()} yes done={() => {}} close={() => {}} />, {
    answers: { Approve: refused("STORE_UNAVAILABLE", "not now"), PlanDiff: { run: { planDiff: null } } },
  });
  const button = screen.getByRole("button", { name: "Approve" });
  await user.click(button);
  await vi.waitFor(() => expect(screen.getByRole("alert").textContent).toContain("not now"));
  await user.click(screen.getByRole("button", { name: "Approve" }));
  await vi.waitFor(() => expect(of(sent, "Approve")).toHaveLength(2));
  const ids = of(sent, "Approve").map(({ input }) => (input as { requestId: string }).requestId);
  expect(new Set(ids).size, "both have one id").toBe(1);
});
