import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Step } from "../api/model";
import { m } from "../messages";
import { useHeader, useOrder, useRunStore } from "../runstate/context";
import { RESET_STEP_PARAMS } from "../address/views";
import { attemptName, bytes } from "../format/format";
import { stepTitle } from "../format/stepTitle";
import { artifactKind, ArtifactLinks, Digest } from "../step/Artifact";
import { Notice } from "../ui/Page";
import { type Column, Table } from "../ui/Table";

interface Row {
  runId: string;
  step: Step;
  artifact: Step["artifacts"][number];
}

const COLUMNS: readonly Column<Row>[] = [
  { head: m.artifacts.kind, main: true, cell: ({ artifact }) => artifactKind(artifact.kind) },
  {
    head: m.artifacts.step,
    cell: ({ step }) => (
      <Link
        from="/runs/$runId"
        to="."
        search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: step.stepId, tab: "artifacts" })}
      >
        {stepTitle(step.stepId, step.name)}
      </Link>
    ),
  },
  { head: m.artifacts.attempt, cell: ({ step }) => attemptName(step.logicalAttemptId) },
  { head: m.artifacts.size, cell: ({ artifact }) => artifact.sizeBytes !== null && bytes(artifact.sizeBytes) },
  {
    head: m.artifacts.file,
    text: true,
    // One cell of a card on a phone, with all its links.
    cell: ({ step, artifact, runId }) => (
      <div key={step.stepId}>
        <ArtifactLinks runId={runId} artifact={artifact} />
      </div>
    ),
  },
  {
    head: m.artifacts.sha256,
    wide: true,
    cell: ({ artifact }) => artifact.sha256 && <Digest sha256={artifact.sha256} />,
  },
];

/** The artifacts of the steps, in the order of the plan. */
export default function RunArtifacts({ runId }: { runId: string }) {
  const store = useRunStore();
  const header = useHeader();
  const order = useOrder();
  const rows = useMemo(
    () =>
      order.flatMap((stepId) => {
        const step = store.step(stepId);
        return step ? step.artifacts.map((artifact) => ({ runId, step, artifact })) : [];
      }),
    // The header changes with every step.
    // oxlint-disable-next-line react/exhaustive-deps
    [store, order, header, runId],
  );
  if (rows.length === 0) return <Notice title={m.artifacts.none} />;
  return (
    <Table
      label={m.run.tabs.artifacts}
      columns={COLUMNS}
      rows={rows}
      rowKey={({ step, artifact }) => `${step.stepId} ${artifact.uri}`}
    />
  );
}
