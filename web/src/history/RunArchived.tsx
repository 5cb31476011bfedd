import { Archive } from "lucide-react";
import { RunArchiveDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { retention as words } from "../messages/retention";
import { StatusBadge } from "../ui/Status";
import { Time } from "../ui/Time";

/** Says that the log of an old run is in the archive. The page is whole without it, so an error is not shown. */
export function RunArchived({ runId }: { runId: string }) {
  const { answer } = useQuery(RunArchiveDocument, { runId }, ({ run }) => run?.archive ?? null);
  if (!answer) return null;
  return (
    <span title={words.archivedOn} data-testid="run-archived">
      <StatusBadge look={{ icon: Archive, tone: "skipped", word: words.archived }} />{" "}
      <Time at={instant(answer.at)} format="full" />
    </span>
  );
}
