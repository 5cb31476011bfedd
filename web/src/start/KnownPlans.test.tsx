import { expect, it } from "vitest";
import { RUN } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import type { Draft } from "./draft";
import { FirstSteps } from "./FirstSteps";
import { KnownPlans } from "./KnownPlans";

function run(runId: string, planVersion: string, environmentId = "prod") {
  return { node: { runId, projectId: "shop", environmentId, plan: { planId: "nightly", planVersion } } };
}

it("lists each plan once by place, and loads the newest with its parameters", async () => {
  const choose = vi.fn<(part: Partial<Draft>) => void>();
  const { user } = await show(<KnownPlans choose={choose} />, {
    answers: {
      KnownPlans: { runs: { edges: [run(RUN, "1.5"), run("r2", "1.4"), run("r3", "1.4", "dev")] } },
      StartingPoint: {
        run: { planDocument: { schemaVersion: "v1.2", token: "***" }, request: { params: { day: "2026-11-21" } } },
      },
    },
  });
  const list = await screen.findByRole("combobox", { name: "Start from a known plan" });
  expect([...list.querySelectorAll("option")].map((option) => option.textContent)).toEqual([
    "Choose a plan…",
    "nightly@1.5 · shop/prod",
    "nightly@1.4 · shop/dev",
  ]);
  await user.selectOptions(list, RUN);
  await vi.waitFor(() => expect(choose).toHaveBeenCalledOnce());
  expect(choose.mock.calls[0]?.[0]).toEqual({
    plan: 'schemaVersion: v1.2\ntoken: "***"\n',
    params: '{\n  "day": "2026-11-21"\n}',
    from: RUN,
  });
  expect(screen.getByRole("status").textContent, "secrets must be replaced").toContain("***");
});

it.each([
  ["nightly", true],
  ["nightlyy", false],
])("loads the plan that the address names: %s", async (wanted, known) => {
  const choose = vi.fn<(part: Partial<Draft>) => void>();
  await show(<KnownPlans choose={choose} wanted={wanted} />, {
    answers: {
      KnownPlans: { runs: { edges: [run(RUN, "1.5")] } },
      StartingPoint: { run: { planDocument: { schemaVersion: "v1.2" }, request: { params: null } } },
    },
  });
  if (known) await vi.waitFor(() => expect(choose.mock.calls[0]?.[0].from).toBe(RUN));
  else expect((await screen.findByText(/No plan nightlyy ran here lately/)).role).toBe("status");
  expect(choose).toHaveBeenCalledTimes(known ? 1 : 0);
});

it("shows three ways to begin, each with something to copy", async () => {
  const { user } = await show(<FirstSteps />, { viewer: { actions: new Set(["START", "CREATE_TOKEN"] as const) } });
  expect(screen.getAllByRole("heading", { level: 3 }).map(({ textContent }) => textContent)).toEqual([
    "Run the sample",
    "Write a plan",
    "Connect the command line",
  ]);
  await user.click(screen.getByRole("button", { name: "Copy Write a plan" }));
  expect(await navigator.clipboard.readText()).toContain("tenantId: acme");
  expect(screen.getByRole("link", { name: "Open the form" }).getAttribute("href")).toBe("/start?plan=first");
  expect(screen.getByText(/dvt context set here --server/).textContent).toContain(globalThis.location.origin);
});
