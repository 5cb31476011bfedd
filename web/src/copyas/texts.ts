// The same request in three forms: a command of the CLI, a call by curl, and a document of GraphQL with its variables.

export interface Texts {
  cli: string;
  curl: string;
  graphql: string;
}

/** A word of a shell; anything but plain characters is quoted. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function command(...words: readonly (string | null | undefined)[]): string {
  return words
    .filter((word): word is string => word !== null && word !== undefined)
    .map(shellWord)
    .join(" ");
}

/** An option with its value; nothing for an absent value. */
function option(name: string, value: string | null | undefined): string[] {
  return value === null || value === undefined || value === "" ? [] : [name, value];
}

function texts(origin: string, cli: string, query: string, variables: Record<string, unknown>): Texts {
  const body = JSON.stringify({ query: query.replaceAll(/\s+/g, " ").trim(), variables });
  return {
    cli,
    curl: [
      `curl -sS ${shellWord(`${origin}/graphql`)}`,
      '-H "Authorization: Bearer $DVT_TOKEN"',
      "-H 'Content-Type: application/json'",
      `-d ${shellWord(body)}`,
    ].join(" \\\n  "),
    graphql: `${query.trim()}\n\n# Variables\n${JSON.stringify(variables, null, 2)}`,
  };
}

export function runTexts(origin: string, runId: string): Texts {
  const query = `query Run($runId: String!) {
  run(runId: $runId) {
    runId
    statusRaw
    runSeq
    rootCause { stepId code message }
    steps { stepId statusRaw }
  }
}`;
  return texts(origin, command("dvt", "run", "show", runId), query, { runId });
}

export interface ListFilter {
  statuses?: readonly string[] | null | undefined;
  text?: string | null | undefined;
  triggeredBy?: string | null | undefined;
}

export function listTexts(origin: string, filter: ListFilter): Texts {
  const query = `query Runs($filter: RunFilter) {
  runs(filter: $filter, first: 50) {
    edges { node { runId statusRaw plan { planId planVersion } createdAt } }
    pageInfo { hasNextPage endCursor }
  }
}`;
  const cli = command(
    "dvt",
    "run",
    "list",
    ...(filter.statuses ?? []).flatMap((status) => option("--status", status.toLowerCase())),
    ...option("--text", filter.text),
    ...option("--by", filter.triggeredBy),
  );
  return texts(origin, cli, query, { filter });
}

/** The commands of the CLI for signals; an action without one is sent as GraphQL only. */
const VERBS: Readonly<Record<string, string>> = {
  PAUSE: "pause",
  RESUME: "resume",
  RETRY_STEP: "retry",
  SKIP_STEP: "skip",
  CANCEL: "cancel",
  EMERGENCY_STOP: "stop",
};

export interface SignalRequest {
  action: string;
  runId: string;
  stepId: string | null;
  reason: string;
}

/** The member of `SignalInput` for an action: RETRY_STEP is retryStep. */
function member(action: string): string {
  return action.toLowerCase().replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

export function signalTexts(origin: string, { action, runId, stepId, reason }: SignalRequest): Texts | null {
  const verb = VERBS[action];
  if (verb === undefined) return null;
  const cli = command("dvt", "run", verb, runId, stepId, ...option("--reason", reason));
  const content = { ...(stepId === null ? {} : { stepId }), ...(reason === "" ? {} : { reason }) };
  if (action === "CANCEL") {
    const query = `mutation Cancel($input: CancelRunInput!) {
  cancelRun(input: $input) { signal { signalId decision application } }
}`;
    return texts(origin, cli, query, { input: { runId, signalId: "CHOOSE-A-NEW-ID", ...content } });
  }
  const query = `mutation Signal($input: SignalRunInput!) {
  signalRun(input: $input) { signal { signalId decision application } }
}`;
  return texts(origin, cli, query, {
    input: { runId, signalId: "CHOOSE-A-NEW-ID", signal: { [member(action)]: content } },
  });
}

export interface RerunRequest {
  /** One run, or those of a bulk. */
  runIds: readonly string[];
  from: { failed?: boolean | null; start?: boolean | null; steps?: readonly string[] | null };
  /** Null keeps the parameters of each run. */
  params: unknown;
  reason: string;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** A rerun of one run, or of several as a bulk. The CLI reads the ids of a bulk from its input. */
export function rerunTexts(origin: string, { runIds, from, params, reason }: RerunRequest): Texts {
  const [runId] = runIds;
  const bulk = runIds.length !== 1 || runId === undefined;
  const flags = [
    ...option("--from", from.start ? "start" : (from.steps?.join(",") ?? "failed")),
    ...Object.entries((params ?? {}) as Record<string, unknown>).flatMap(([name, value]) =>
      // The CLI reads a value as JSON if it can, so a text that is also JSON is quoted.
      option("--param", `${name}=${typeof value === "string" && !isJson(value) ? value : JSON.stringify(value)}`),
    ),
    ...option("--reason", reason),
  ];
  const cli = bulk
    ? `printf '%s\\n' ${runIds.map(shellWord).join(" ")} | ${command("dvt", "bulk", "rerun", "--ids-from", "-", ...flags, "--yes")}`
    : command("dvt", "run", "rerun", runId, ...flags);
  const content = { from, ...(params === null ? {} : { params }), ...(reason === "" ? {} : { reason }) };
  const requestId = "CHOOSE-A-NEW-ID";
  return bulk
    ? texts(
        origin,
        cli,
        `mutation Rerun($input: SignalRunsInput!) {
  signalRuns(input: $input) { bulk { id state } }
}`,
        {
          input: { requestId, runs: { ids: runIds }, action: { rerun: content }, reason, expectedCount: runIds.length },
        },
      )
    : texts(
        origin,
        cli,
        `mutation Rerun($input: RerunInput!) {
  rerun(input: $input) { run { runId } }
}`,
        { input: { runId, runRequestId: requestId, ...content } },
      );
}
