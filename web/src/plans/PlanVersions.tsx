import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { PlanQuery } from "../api/gen/graphql";
import { instant } from "../api/model";
import { shortId } from "../format/format";
import { m } from "../messages";
import { Time } from "../ui/Time";
import { PlanChanges } from "./PlanChanges";
import css from "./Plans.module.css";

type Version = NonNullable<PlanQuery["plan"]>["versions"][number];

/** The documents of a plan, the most recently used first. The differences to the older one unfold. */
export function PlanVersions({ versions }: { versions: readonly Version[] }) {
  return (
    <>
      {reusedOf(versions).map(([version, n]) => (
        <p key={version} className={css.warning} data-testid="same-version">
          {m.plans.sameVersion(version, n)}
        </p>
      ))}
      <ol className={css.versions}>
        {versions.map((version, i) => (
          <li key={`${version.planVersion} ${version.sha256}`}>
            <strong>{version.planVersion}</strong>{" "}
            <code className={css.quiet} title={version.sha256}>
              {version.sha256.slice(0, 12)}
            </code>{" "}
            · {m.plans.used(version.runs)} · {m.plans.from} <Time at={instant(version.firstUsedAt)} /> · {m.plans.until}{" "}
            <Time at={instant(version.lastUsedAt)} />,{" "}
            <Link to="/runs/$runId" params={{ runId: version.lastRunId }} search={{}}>
              {shortId(version.lastRunId)}
            </Link>
            <Changes from={versions[i + 1]} to={version} />
          </li>
        ))}
      </ol>
    </>
  );
}

/** The versions that name more than one document, with the number of documents. */
function reusedOf(versions: readonly Pick<Version, "planVersion">[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const { planVersion } of versions) counts.set(planVersion, (counts.get(planVersion) ?? 0) + 1);
  return [...counts].filter(([, n]) => n > 1);
}

function Changes({ from, to }: { from: Version | undefined; to: Version }) {
  const [open, setOpen] = useState(false);
  if (!from) return null;
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{m.plans.changes(`${from.planVersion} ${from.sha256.slice(0, 6)}`)}</summary>
      {open && <PlanChanges a={from.lastRunId} b={to.lastRunId} />}
    </details>
  );
}
