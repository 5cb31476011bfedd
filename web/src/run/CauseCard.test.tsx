import { expect, it } from "vitest";
import { ANSWERS, header, RUNS, store } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import { CauseCard } from "./CauseCard";

const NODES = { CauseNodes: { run: ANSWERS.data["run"] } };

it("names the failed step, its error, and the number of blocked steps", async () => {
  const { user, search } = await show(<CauseCard />, { run: store(header()), answers: NODES });
  const card = screen.getByRole("region", { name: "Root cause" });
  for (const word of ["stg_orders", "Retry #1", "DBT_TEST_FAILED", "USER · not retryable · seq 1251"])
    expect(card.textContent).toContain(word);
  expect(screen.getByLabelText("What the step said").textContent).toContain("Got 3 results");
  await vi.waitFor(() => expect(card.textContent).toContain("3 dbt tests failed, 4 skipped"));
  await user.click(screen.getByRole("link", { name: "blocks 14 steps" }));
  await vi.waitFor(() => expect(search()).toMatchObject({ view: "steps" }));
});

it("leads to the line of the log that says why, and copies the error", async () => {
  const { user, search } = await show(<CauseCard />, { run: store(header()), actions: { causeLine: 412 } });
  const link = screen.getByRole("link", { name: /^Log line 412/ });
  expect(link.getAttribute("aria-keyshortcuts")).toBe("l");
  await user.click(link);
  await vi.waitFor(() => expect(search()).toMatchObject({ step: "stg_orders", tab: "log" }));
  await user.click(screen.getByRole("button", { name: "Copy error" }));
  expect(await navigator.clipboard.readText()).toBe(
    "stg_orders\nDBT_TEST_FAILED\nnot_null_stg_orders_id: Got 3 results, configured to fail if != 0",
  );
});

it("is not there while nothing has failed", async () => {
  await show(
    <>
      <p>page</p>
      <CauseCard />
    </>,
    { run: store(RUNS["running"] ?? header()) },
  );
  expect(screen.queryByRole("region")).toBeNull();
});
