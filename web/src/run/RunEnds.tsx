import { RunForecastDocument } from "../api/gen/graphql";
import type { RunHeader } from "../api/model";
import { useQuery } from "../api/useQuery";
import { clockTime, dateTime } from "../format/format";
import { useRunStore, useVerdict } from "../runstate/context";
import { ended } from "../status/look";
import { useZone } from "../ui/Time";
import { endWords, endOf } from "./forecast";

/** How often the forecast is read again while the run moves. */
const EVERY_MS = 15_000;

/** When the run is expected to end, when it should end, and whether it is late. */
export function RunEnds({ header }: { header: RunHeader }) {
  const store = useRunStore();
  const zone = useZone();
  const past = useVerdict().state === "PAST";
  const known = header.startedAt !== null && !past;
  const over = ended(header);
  const { last: end } = useQuery(RunForecastDocument, known ? { runId: header.runId } : null, endOf, {
    ...(over ? {} : { every: EVERY_MS }),
    refetchOn: header.status,
  });
  if (!end || !known) return null;
  const met = (due: number): boolean =>
    header.status === "COMPLETED" && header.completedAt !== null && header.completedAt <= due;
  const words = endWords(
    end,
    store.now(),
    over ? met : null,
    (at) => clockTime(at, zone),
    (at) => dateTime(at, zone).slice(0, 10),
  );
  if (words.text === "") return null;
  return (
    <span title={words.title} data-testid="forecast">
      {words.late ? <strong>{words.text}</strong> : words.text} ·{" "}
    </span>
  );
}
