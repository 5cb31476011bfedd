import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Step } from "../api/model";
import { m } from "../messages";
import { useHeader, useOrder, useRunStore } from "../runstate/context";
import { RESET_STEP_PARAMS } from "../address/views";
import { attemptName, bytes } from "../format/format";
import { Notice } from "../ui/Page";
import { CopyText } from "../ui/CopyText";
import { type Column, Table } from "../ui/Table";

interface Row {
  step: Step;
  artifact: Step["artifacts"][number];
}

const COLUMNS: readonly Column<Row>[] = [
  { head: m.artifacts.kind, main: true, cell: ({ artifact }) => artifact.kind },
  {
    head: m.artifacts.step,
    cell: ({ step }) => (
      <Link
        from="/runs/$runId"
        to="."
        search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: step.stepId, tab: "artifacts" })}
      >
        {step.stepId}
      </Link>
    ),
  },
  { head: m.artifacts.attempt, cell: ({ step }) => attemptName(step.logicalAttemptId) },
  { head: m.artifacts.size, cell: ({ artifact }) => artifact.sizeBytes !== null && bytes(artifact.sizeBytes) },
  {
    head: m.artifacts.sha256,
    text: true,
    cell: ({ artifact }) => artifact.sha256 !== null && <CopyText name={m.artifacts.sha256} text={artifact.sha256} />,
  },
  { head: m.artifacts.uri, text: true, wide: true, cell: ({ artifact }) => <code>{artifact.uri}</code> },
];

/** The artifacts of the steps, in the order of the plan. */
export default function RunArtifacts() {
  const store = useRunStore();
  const header = useHeader();
  const order = useOrder();
  const rows = useMemo(
    () =>
      order.flatMap((stepId) => {
        const step = store.step(stepId);
        return step ? step.artifacts.map((artifact) => ({ step, artifact })) : [];
      }),
    // The header changes with every step.
    // oxlint-disable-next-line react/exhaustive-deps
    [store, order, header],
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
