import { expect, it } from "vitest";
import { BULK_PREVIEW, header, RUN } from "../testing/fixtures";
import { of, refused, screen, show, vi } from "../testing/render";
import { BulkBar } from "./BulkBar";
import { BulkDialog } from "./BulkDialog";

const PREVIEW = { BulkPreview: { preview: { bulk: BULK_PREVIEW } } };

it("offers the actions on the selected runs, or on all that match", async () => {
  const clear = vi.fn<() => void>();
  const { user, sent } = await show(
    <BulkBar selected={[header()]} filter={{ planId: "nightly" }} more clear={clear} />,
    {
      answers: PREVIEW,
    },
  );
  const bar = screen.getByRole("region", { name: "Selected runs" });
  expect(bar.textContent).toContain("1 run selected");
  await user.click(screen.getByRole("button", { name: "Act on all that match the filter" }));
  expect(bar.textContent).toContain("All that match");
  await user.click(screen.getByRole("button", { name: "Pause…" }));
  await vi.waitFor(() =>
    expect(of(sent, "BulkPreview")[0]).toMatchObject({ action: { bulk: { runs: { filter: { planId: "nightly" } } } } }),
  );
});

it("counts the runs, asks for their number above ten, and sends the count that was read", async () => {
  const { user, sent } = await show(
    <BulkDialog action={{ kind: "PAUSE", stepId: "", force: false }} runs={{ ids: [RUN] }} onClose={() => {}} />,
    { answers: { ...PREVIEW, SignalRuns: refused("BULK_MOVED", "It is 201 runs now.") } },
  );
  await vi.waitFor(() => expect(screen.getByTestId("bulk-preview").textContent).toContain("200 runs"));
  expect(screen.getByTestId("bulk-preview").textContent).toContain("3 runs: The run has ended. RUN_TERMINAL");
  await user.type(screen.getByLabelText(/^Reason/), "maintenance");
  const send = screen.getByRole<HTMLButtonElement>("button", { name: /^Send: pause 200 runs/ });
  expect(send.disabled).toBe(true);
  await user.type(screen.getByLabelText(/^Type the number of runs, 200/), "200");
  await user.click(send);
  await vi.waitFor(() => expect(of(sent, "SignalRuns")).toHaveLength(1));
  expect(of(sent, "SignalRuns")[0]).toMatchObject({ input: { reason: "maintenance", expectedCount: 200 } });
  expect((await screen.findByRole("alert")).textContent).toMatch(/^The runs that match have changed/);
});
