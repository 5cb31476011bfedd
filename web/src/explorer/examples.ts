// Queries to begin with. A test checks them against the schema.
import { explorer as explorerWords } from "../messages/explorer";

export interface Example {
  name: keyof typeof explorerWords.examples;
  query: string;
  variables: string;
}

const OF_A_RUN = '{ "runId": "" }';

export const EXAMPLES: readonly Example[] = [
  {
    name: "attention",
    query: `query {
  attention(first: 10) {
    edges { node { kind runId planId stepId code message deadline actions whoCould } }
  }
}
`,
    variables: "",
  },
  {
    name: "causes",
    query: `query Causes($runId: String!) {
  run(runId: $runId) {
    status
    diagnosis { title confidence evidence { source text } next { text signalType safe } }
  }
}
`,
    variables: OF_A_RUN,
  },
  {
    name: "watch",
    query: `subscription Watch($runId: String!) {
  runUpdates(runId: $runId) {
    sync
    runSeq
    asOf
    snapshot { status stepCounts { total success failed running pending } }
  }
}
`,
    variables: OF_A_RUN,
  },
  {
    name: "preview",
    query: `query Preview($runId: String!) {
  preview(action: { signal: { runId: $runId, signal: { pause: { reason: "maintenance" } } } }) {
    outcome
    reason
    status
    changes { stepId from to why }
    warnings
  }
}
`,
    variables: OF_A_RUN,
  },
  {
    name: "pause",
    query: `mutation Pause($input: SignalRunInput!) {
  signalRun(input: $input) { signal { signalId decision application } }
}
`,
    variables:
      '{ "input": { "runId": "", "signalId": "my-pause-1", "signal": { "pause": { "reason": "maintenance" } } } }',
  },
];
