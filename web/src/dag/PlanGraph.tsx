// The graph of a plan before any run of it has started: the steps of its document, all pending.
import { useMemo, useState } from "react";
import type { RunHeader, Step } from "../api/model";
import { pictures } from "../messages/pictures";
import { RunContext } from "../runstate/context";
import { RunStore } from "../runstate/store";
import { shapeOf } from "../topology/shape";
import { Skeleton } from "../ui/Page";
import { Graph } from "./Graph";
import { useLayout } from "./useLayout";

interface PlanGraphProps {
  steps: readonly Step[];
}

export default function PlanGraph({ steps }: PlanGraphProps) {
  const [chosen, setChosen] = useState<string | null>(null);
  const shape = useMemo(() => shapeOf([...steps]), [steps]);
  const store = useMemo(() => {
    const made = new RunStore();
    made.open({ status: "PENDING", statusRaw: "PENDING", failedSteps: 0, runSeq: 0 } as RunHeader, [...steps]);
    return made;
  }, [steps]);
  const layout = useLayout(shape, null);
  if (!layout) return <Skeleton rows={6} label={pictures.graph.layingOut} />;
  return (
    <RunContext value={store}>
      <Graph key={shape.ids.join(" ")} shape={shape} layout={layout} chosen={chosen} choose={setChosen} fitted />
    </RunContext>
  );
}
