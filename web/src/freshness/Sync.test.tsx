import { expect, it } from "vitest";
import type { Verdict } from "../runstate/store";
import { NOW } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { SyncBanner, SyncChip } from "./Sync";

function verdict(over: Partial<Verdict>): Verdict {
  const asOf = NOW - 12_000;
  return { state: "LIVE", reason: null, since: asOf, asOf, lagMs: 140, seq: 812, headSeq: 4120, ...over };
}

it.each([
  [verdict({ asOf: NOW }), "Live · as of now· lag 140 ms· seq 812"],
  [verdict({ asOf: NOW, reason: "BUS_DEGRADED" }), "Live· polling the store"],
  [verdict({ state: "VERIFYING", reason: "RECONNECTED" }), "Verifying"],
  [verdict({ state: "STALE", reason: "GAP" }), "Stale12 s· GAP"],
  [verdict({ state: "OFFLINE", reason: "CONNECTION_LOST" }), "as of 03:11:55 UTC"],
])("says in words how true the view is: %s", async (of, words) => {
  await show(<SyncChip verdict={of} now={NOW} />);
  expect(screen.getByTestId("sync").textContent?.replaceAll(" ", "")).toContain(words.replaceAll(" ", ""));
});

it("leaves the word and the age of being offline to the banner or the bar", async () => {
  await show(<SyncChip verdict={verdict({ state: "OFFLINE", reason: "CONNECTION_LOST" })} now={NOW} />);
  const chip = screen.getByTestId("sync");
  expect(chip.querySelector("strong")).toBeNull();
  expect(chip.textContent).not.toContain("12 s");
});

it("says across the page why the view is stale, and offers to retry when it is offline", async () => {
  const { container, unmount } = await show(
    <SyncBanner verdict={verdict({ state: "STALE", reason: "STORE_DOWN" })} now={NOW} />,
  );
  expect(container.textContent).toContain("Stale for 12 s. The store does not answer.");
  expect(container.textContent).toContain("seq 812");
  expect(screen.queryByRole("button")).toBeNull();
  unmount();
  await show(<SyncBanner verdict={verdict({ state: "OFFLINE", reason: "CONNECTION_LOST" })} now={NOW} />);
  expect(screen.getByRole("button", { name: "Retry now" })).toBeDefined();
});
