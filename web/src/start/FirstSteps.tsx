// The three ways to begin in a dvt in which nothing has run, each with something to copy. A viewer who may not start
// runs or create tokens reads whom to ask instead.
import { Link } from "@tanstack/react-router";
import { m } from "../messages";
import { MayNot, useMay } from "../session/MayNot";
import { useViewer } from "../session/viewer";
import { CopyButton } from "../ui/CopyText";
import css from "./FirstSteps.module.css";
import { firstPlan } from "./firstPlan";

const SAMPLE = "dvt dev sample shop | dvt run start - --watch";

function connecting(origin: string, token: string): string {
  return `export DVT_TOKEN=${token}\ndvt context set here --server ${origin} --token-env DVT_TOKEN\ndvt context use here\ndvt run list`;
}

export function FirstSteps() {
  const { tenantId, principal, devPrincipals } = useViewer();
  const dev = devPrincipals.length > 0;
  const start = useMay("START");
  const token = useMay("CREATE_TOKEN");
  const words = m.start.first;
  if (start.refusal !== null) {
    return (
      <section className={css.first} aria-label={words.title}>
        <h2>{words.title}</h2>
        <p>{words.forReaders}</p>
        <MayNot of={start} />
      </section>
    );
  }
  return (
    <section className={css.first} aria-label={words.title}>
      <h2>{words.title}</h2>
      <ol className={css.ways}>
        <Way title={words.sample} means={words.sampleMeans} text={SAMPLE} />
        <Way title={words.write} means={words.writeMeans} text={firstPlan(tenantId)}>
          <Link to="/start" search={{ plan: "first" }}>
            {words.open}
          </Link>
        </Way>
        <Way
          title={words.connect}
          means={dev ? words.connectDev : token.refusal === null ? words.connectMeans : words.connectAsk}
          text={connecting(globalThis.location.origin, dev ? `$(dvt dev token ${principal})` : "…")}
        >
          {!dev && <MayNot of={token} />}
        </Way>
      </ol>
    </section>
  );
}

function Way(way: { title: string; means: string; text: string; children?: React.ReactNode }) {
  return (
    <li className={css.way}>
      <h3>{way.title}</h3>
      <p>{way.means}</p>
      <pre tabIndex={0} aria-label={way.title}>
        {way.text}
      </pre>
      <p className={css.ends}>
        <CopyButton text={way.text} name={way.title} />
        {way.children}
      </p>
    </li>
  );
}
