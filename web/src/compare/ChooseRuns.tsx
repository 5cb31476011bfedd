// Two fields for the runs to compare, and the runs that a person is likely to mean.
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useId, useState } from "react";
import { RunsDocument } from "../api/gen/graphql";
import { type RunRow, toRow } from "../api/model";
import { useQuery } from "../api/useQuery";
import { shortId } from "../format/format";
import { Wrong, wrongProps } from "../forms/Violations";
import { m } from "../messages";
import { runLook } from "../status/look";
import form from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { StatusBadge } from "../ui/Status";
import { Time } from "../ui/Time";
import css from "./Compare.module.css";
import { lastGreenOf, type RunRef } from "./runRef";

const OFFERED = 8;
type Side = "a" | "b";

interface ChooseRunsProps {
  a: string;
  b: string;
  refs: Record<Side, RunRef>;
}

export function ChooseRuns({ a, b, refs }: ChooseRunsProps) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState({ a, b });
  // The field that an offered run goes into: the one that was used last, else the first that has no run.
  const [used, setUsed] = useState<Side | null>(null);
  const into = used ?? (typed.a.trim() === "" || refs.a.problem !== null ? "a" : "b");
  const id = useId();
  const go = (next: Record<Side, string>): void => {
    setTyped(next);
    void navigate({ to: "/compare", search: { a: next.a.trim() || undefined, b: next.b.trim() || undefined } });
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    go(typed);
  };
  const take = (text: string): void => {
    const next = { ...typed, [into]: text };
    setUsed(null);
    go(next);
  };
  // A problem is about the text that was looked up, not about what is typed since.
  const problemOf = (side: Side): string | null => (typed[side] === { a, b }[side] ? refs[side].problem : null);
  const known = refs.a.run ?? refs.b.run;
  const taken = [refs.a.runId, refs.b.runId];
  const among = [...refs.a.among, ...refs.b.among];
  return (
    <form className={css.fields} onSubmit={submit}>
      <p className={css.quiet}>{m.compare.howTo}</p>
      <div className={css.runs}>
        {(["a", "b"] as const).map((side) => (
          <label key={side} className={form.field}>
            <span>{m.compare.field[side]}</span>
            <input
              value={typed[side]}
              maxLength={200}
              spellCheck={false}
              autoComplete="off"
              placeholder={m.compare.example}
              {...wrongProps(`${id}${side}`, problemOf(side))}
              onFocus={() => setUsed(side)}
              onChange={(event) => setTyped({ ...typed, [side]: event.target.value })}
            />
            <Wrong id={`${id}${side}`} text={problemOf(side)} />
          </label>
        ))}
      </div>
      <p className={css.go}>
        <Button
          kind="primary"
          type="submit"
          refusal={typed.a.trim() === "" || typed.b.trim() === "" ? m.compare.bothNeeded : null}
        >
          {m.compare.submit}
        </Button>
      </p>
      {among.length > 0 ? (
        <Offers title={m.compare.among} runs={among.slice(0, OFFERED)} into={into} take={take} />
      ) : (
        <Recent of={known} taken={taken} into={into} take={take} />
      )}
    </form>
  );
}

interface OfferProps {
  into: Side;
  take: (text: string) => void;
}

/** The newest runs: of the same plan in the same place once one run is known. */
function Recent({ of, taken, into, take }: OfferProps & { of: RunRow | null; taken: readonly (string | null)[] }) {
  const filter = of && { planId: of.plan.planId, projectId: of.projectId, environmentId: of.environmentId };
  const { last } = useQuery(
    RunsDocument,
    { first: OFFERED + 2, after: null, filter, orderBy: "CREATED_DESC" as const },
    ({ runs }) => runs.edges.map((edge) => toRow(edge.node)),
  );
  const runs = last?.filter(({ runId }) => !taken.includes(runId)).slice(0, OFFERED);
  if (!runs || runs.length === 0) return null;
  return (
    <>
      {of && (
        <p>
          <Button onClick={() => take(lastGreenOf(of.plan.planId, of.projectId, of.environmentId))}>
            {m.compare.lastGreen(of.plan.planId)}
          </Button>
        </p>
      )}
      <Offers title={of ? m.compare.recentOf(of.plan.planId) : m.compare.recent} runs={runs} into={into} take={take} />
    </>
  );
}

function Offers({ title, runs, into, take }: OfferProps & { title: string; runs: readonly RunRow[] }) {
  return (
    <section aria-label={title}>
      <h2 className={css.offerHead}>{title}</h2>
      <ul className={css.offers}>
        {runs.map((run) => (
          <li key={run.runId}>
            <Button
              label={m.compare.takeAs(`${run.plan.planId} ${shortId(run.runId)}`, into.toUpperCase())}
              onClick={() => take(shortId(run.runId))}
            >
              {m.compare.take(into.toUpperCase())}
            </Button>
            <StatusBadge look={runLook(run)} />
            <span>
              {run.plan.planId}@{run.plan.planVersion} <code>{shortId(run.runId)}</code>
            </span>
            <span className={css.quiet}>
              {run.projectId}/{run.environmentId} · <Time at={run.createdAt} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
