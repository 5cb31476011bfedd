import { expect, it } from "vitest";
import { header, NOW, step, store } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { Blocked } from "../topology/blocked";
import { shapeOf } from "../topology/shape";
import { RetriesContext } from "../waits/retries";
import { GraphNode } from "./GraphNode";

it("says how long a running step has run", async () => {
  const running = step("load", {
    status: "RUNNING",
    statusRaw: "RUNNING",
    startedAt: NOW - 95_000,
    completedAt: null,
    durationMs: null,
  });
  const shape = shapeOf([running]);
  await show(
    <GraphNode
      id="load"
      step={0}
      x={0}
      y={0}
      blocked={new Blocked(shape, () => running)}
      behind={false}
      held={false}
      chosen={false}
      tabStop
      choose={() => {}}
    />,
    { run: store(header(), {}, [running]) },
  );
  expect(screen.getByRole("button", { name: "load, 1 m 35 s, running" }).textContent).toContain("1 m 35 s");
});

it("says when a step is tried again on which nothing works", async () => {
  const resting = step("load", {
    status: "RUNNING",
    statusRaw: "RUNNING",
    startedAt: NOW - 95_000,
    completedAt: null,
    durationMs: null,
  });
  const retries = { count: 1, steps: new Map([["load", { no: 3, of: 5, at: NOW + 281_000 }]]) };
  await show(
    <RetriesContext value={retries}>
      <GraphNode
        id="load"
        step={0}
        x={0}
        y={0}
        blocked={new Blocked(shapeOf([resting]), () => resting)}
        behind={false}
        held={false}
        chosen={false}
        tabStop
        choose={() => {}}
      />
    </RetriesContext>,
    { run: store(header(), {}, [resting]) },
  );
  const name = "load, try 3 of 5 in 4 m 41 s, waiting to try again";
  expect(screen.getByRole("button", { name }).textContent).toContain("try 3 of 5 in 4 m 41 s");
});
