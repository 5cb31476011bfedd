import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { ComparedRunFieldsFragment, ComparedStepFieldsFragment } from "../api/gen/graphql";
import { fineDuration, shortId } from "../format/format";
import { stepTitle } from "../format/stepTitle";
import { m } from "../messages";
import { stepCell, toneStyle } from "../plans/glyphs";
import { Button } from "../ui/Button";
import { type Column, Table } from "../ui/Table";
import { type ComparedStep, slowedBy } from "./order";
import css from "../plans/Plans.module.css";
import own from "./Compare.module.css";

/** Rows that are shown at once; more cost the browser noticeable time. */
const MOST_ROWS = 500;
/** A smaller difference is noise. */
const SMALLEST_MS = 50;

interface Props {
  a: ComparedRunFieldsFragment;
  b: ComparedRunFieldsFragment;
  steps: readonly ComparedStep[];
}

export function ComparedSteps({ a, b, steps }: Props) {
  const [all, setAll] = useState(false);
  const columns: Column<ComparedStep>[] = [
    { head: m.compare.step, main: true, text: true, cell: (step) => stepTitle(step.stepId, step.name) },
    { head: m.compare.change, text: true, cell: ({ changes }) => changes.map((c) => m.compare.changes[c]).join(", ") },
    { head: m.compare.statusOf("A"), cell: (step) => <Side run={a} step={step} side={step.a} /> },
    { head: m.compare.statusOf("B"), cell: (step) => <Side run={b} step={step} side={step.b} /> },
    { head: m.compare.tookIn("A"), cell: (step) => took(step.a) },
    { head: m.compare.tookIn("B"), cell: (step) => took(step.b) },
    { head: m.compare.logs, cell: (step) => <Logs a={a} b={b} step={step} /> },
    { head: m.compare.by, cell: (step) => <By ms={slowedBy(step)} /> },
  ];
  const shown = all ? steps : steps.slice(0, MOST_ROWS);
  return (
    <>
      <Table label={m.compare.steps} columns={columns} rows={shown} rowKey={({ stepId }) => stepId} />
      {shown.length < steps.length && <Button onClick={() => setAll(true)}>{m.plans.allSteps(steps.length)}</Button>}
    </>
  );
}

function took(side: ComparedStepFieldsFragment | null): string | null {
  return side?.durationMs == null ? null : fineDuration(side.durationMs);
}

/** A step in one run: its status, error and number of attempts, as a link to it. */
function Side({
  run,
  step,
  side,
}: {
  run: ComparedRunFieldsFragment;
  step: ComparedStep;
  side: ComparedStepFieldsFragment | null;
}) {
  if (!side) return <span className={css.quiet}>{m.compare.absent}</span>;
  const { glyph, tone, word } = stepCell({ ...side, kept: side.keptFrom !== null });
  return (
    <span>
      <Link
        to="/runs/$runId"
        params={{ runId: run.runId }}
        search={{ step: step.stepId }}
        preload={false}
        className={css.side}
        style={toneStyle(tone, false)}
      >
        <span aria-hidden="true">{glyph}</span> {side.keptFrom === null ? word : m.compare.kept(shortId(side.keptFrom))}
      </Link>
      {side.errorCode !== null && (
        <>
          {" "}
          <code>{side.errorCode}</code>
        </>
      )}
      {side.attempts > 1 && <span className={css.quiet}> {m.compare.attempts(side.attempts)}</span>}
    </span>
  );
}

/** The logs of the step in both runs, side by side. A step that did not start has none. */
function Logs({ a, b, step }: { a: ComparedRunFieldsFragment; b: ComparedRunFieldsFragment; step: ComparedStep }) {
  const sides = [
    ["A", a, step.a],
    ["B", b, step.b],
  ] as const;
  // One element, because each child of a cell has a line of its own on a phone.
  return (
    <span>
      {sides.map(
        ([name, run, side]) =>
          side !== null &&
          side.hasRun && (
            <Link
              key={name}
              to="/runs/$runId"
              params={{ runId: run.runId }}
              search={{ step: step.stepId, tab: "log" }}
              preload={false}
              className={own.log}
              aria-label={m.compare.logOf(stepTitle(step.stepId, step.name), name)}
            >
              {name}
            </Link>
          ),
      )}
    </span>
  );
}

function By({ ms }: { ms: number | null }) {
  if (ms === null || Math.abs(ms) < SMALLEST_MS) return null;
  return `${ms > 0 ? "+" : "−"}${fineDuration(Math.abs(ms))}`;
}
