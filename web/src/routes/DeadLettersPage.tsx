import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { newId } from "../api/newId";
import { Gate } from "../session/MayNot";
import { useCan } from "../session/useCan";
import { DestinationLetters } from "../deadletters/DestinationLetters";
import { LetterCauses } from "../deadletters/LetterCauses";
import { LetterEvents } from "../deadletters/LetterEvents";
import { causeOf } from "../deadletters/letterCause";
import {
  DeadLettersDocument,
  type LetterFieldsFragment,
  RedriveDocument,
  type RedriveMutation,
} from "../api/gen/graphql";
import { instant } from "../api/model";
import { request } from "../api/request";
import { useConnection } from "../api/useConnection";
import { dlq as dlqWords } from "../messages/deadLetters";
import { ReasonDialog } from "../forms/ReasonDialog";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import css from "../styles/Form.module.css";
import { shortId } from "../format/format";
import { List, PageHead } from "../page/List";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";
import page from "../styles/Page.module.css";

type Result = RedriveMutation["redriveDeadLetters"]["results"][number];
const route = getRouteApi("/dlq");

/** The dead letter to redrive, or all open ones. */
interface Wanted {
  letter: LetterFieldsFragment | null;
  requestId: string;
}

export function DeadLettersPage() {
  return (
    <Gate action="READ_DEAD_LETTERS" title={dlqWords.title}>
      <Letters />
    </Gate>
  );
}

function Letters() {
  useDocumentStatus(dlqWords.title);
  const { all, run } = route.useSearch();
  const navigate = route.useNavigate();
  const pages = useConnection(
    DeadLettersDocument,
    { open: all !== "yes", runId: run ?? null },
    (result) => result.deadLetters,
  );
  const may = useCan("REDRIVE");
  const [wanted, setWanted] = useState<Wanted | null>(null);
  const [looked, setLooked] = useState<LetterFieldsFragment | null>(null);
  const [results, setResults] = useState<ReadonlyMap<string, Result>>(new Map());
  const [more, setMore] = useState(false);
  const open = pages.rows?.filter((letter) => letter.redrivenAt === null).length ?? 0;

  const redrive = async ({ letter, requestId }: Wanted): Promise<void> => {
    const letters = letter ? { ids: [letter.id] } : run ? { runId: run } : { allOpen: true };
    const { redriveDeadLetters } = await request(RedriveDocument, { input: { requestId, letters } });
    setResults(new Map(redriveDeadLetters.results.map((result) => [result.id, result])));
    setMore(redriveDeadLetters.more);
    pages.refresh();
  };

  const columns: Column<LetterFieldsFragment>[] = [
    {
      head: dlqWords.run,
      main: true,
      cell: (letter) => (
        <Link to="/runs/$runId" params={{ runId: letter.runId }}>
          {shortId(letter.runId)}
        </Link>
      ),
    },
    {
      head: dlqWords.seqs,
      cell: (letter) => (
        <span>
          {dlqWords.events(letter.fromSeq + 1, letter.toSeq)}{" "}
          <Button
            kind="quiet"
            label={dlqWords.lookAt(shortId(letter.runId), letter.toSeq)}
            onClick={() => setLooked(letter)}
          >
            {dlqWords.look}…
          </Button>
        </span>
      ),
    },
    { head: dlqWords.project, wide: true, cell: (letter) => letter.projectId },
    { head: dlqWords.tries, cell: (letter) => letter.attempts },
    {
      head: dlqWords.cause,
      text: true,
      cell: ({ cause }) => <span title={cause}>{causeOf(cause)?.says ?? cause}</span>,
    },
    { head: dlqWords.givenUp, cell: (letter) => <Time at={instant(letter.buriedAt)} /> },
    {
      head: dlqWords.result,
      cell: (letter) => {
        const result = results.get(letter.id);
        if (result?.outcome === "FAILED")
          return <span className={css.tone} data-tone="bad">{`✕ ${result.message ?? result.code ?? ""}`}</span>;
        if (letter.redrivenAt !== null) {
          return (
            <span className={css.tone} data-tone="good">
              ✓ {dlqWords.redriven} <Time at={instant(letter.redrivenAt)} />
            </span>
          );
        }
        return (
          <Button
            label={dlqWords.redriveOne(shortId(letter.runId), letter.toSeq)}
            refusal={may}
            onClick={() => setWanted({ letter, requestId: `ui-${newId()}` })}
          >
            {dlqWords.redrive}…
          </Button>
        );
      },
    },
  ];

  return (
    <div className={page.measure}>
      <PageHead title={dlqWords.title} asOf={pages.asOf} refresh={pages.refresh}>
        <Button
          pressed={all === "yes"}
          onClick={() =>
            void navigate({ search: (old) => ({ ...old, all: all === "yes" ? undefined : "yes" }), replace: true })
          }
        >
          {dlqWords.all}
        </Button>
        <Button
          refusal={may ?? (open === 0 ? dlqWords.noneOpen : null)}
          onClick={() => setWanted({ letter: null, requestId: `ui-${newId()}` })}
        >
          {dlqWords.redriveAll}…
        </Button>
      </PageHead>
      {open > 0 && <LetterCauses letters={pages.rows ?? []} more={pages.hasMore} />}
      {more && <p role="status">{dlqWords.more}</p>}
      <DestinationLetters />
      <List
        label={dlqWords.title}
        pages={pages}
        columns={columns}
        rowKey={(letter) => letter.id}
        empty={<p>{dlqWords.empty}</p>}
      />
      {looked && <LetterEvents letter={looked} onClose={() => setLooked(null)} />}
      {wanted && (
        <ReasonDialog
          title={
            wanted.letter ? dlqWords.redriveOne(shortId(wanted.letter.runId), wanted.letter.toSeq) : dlqWords.redriveAll
          }
          verb={dlqWords.redrive}
          danger={wanted.letter === null}
          {...(wanted.letter === null ? { word: dlqWords.word } : {})}
          act={() => redrive(wanted)}
          onClose={() => setWanted(null)}
        >
          <p>{dlqWords.harmless}</p>
        </ReasonDialog>
      )}
    </div>
  );
}
