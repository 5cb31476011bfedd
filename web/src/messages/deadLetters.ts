// Dead letters: messages that the bus refused.
import { plural } from "../format/format";

export const dlq = {
  title: "Dead letters",
  run: "Run",
  lead: "Updates of runs that the bus refused. The store has all of them, so the pages of the runs are right; programs that listen to the bus miss them until they are redriven.",
  why: "Why they were refused",
  refused: (messages: number, runs: number, more: boolean) =>
    `${plural(messages, "message")} of ${plural(runs, "run")} ${messages === 1 ? "was" : "were"} refused${more ? ", and more below" : ""}`,
  busWell: "The event bus answers now.",
  busDown: "The event bus does not answer: a redrive would fail again.",
  redriveNow: "Redrive them: a new try should succeed.",
  mendFirst: "It refuses again what it refused for a lasting cause: mend that first, then redrive.",
  toHealth: "See Health first",
  known: {
    memory: {
      says: "Redis has no memory left.",
      todo: "Give it more memory, or let it evict keys (maxmemory-policy), then redrive.",
    },
    replica: {
      says: "Redis is a replica that cannot be written.",
      todo: "Point the setting redis to the primary, then redrive.",
    },
    rights: {
      says: "Redis refuses the credentials of dvt.",
      todo: "Check the user and password in the setting redis, then redrive.",
    },
    size: {
      says: "The message is larger than Redis accepts.",
      todo: "Raise proto-max-bulk-len of Redis, then redrive.",
    },
    unwell: {
      says: "Redis does not accept writes now.",
      todo: "Read the log of Redis: its disk or its primary. Redrive when it is well.",
    },
    away: { says: "Redis did not answer.", todo: "Check that it runs and that dvt reaches it, then redrive." },
  },
  seqs: "Events of the run",
  events: (from: number, to: number) => (from === to ? `${to}` : `${from}–${to}`),
  project: "Project",
  tries: "Tries",
  cause: "Last error",
  since: "since",
  givenUp: "Given up",
  result: "Redrive",
  all: "Show redriven too",
  noneOpen: "No dead letter is open.",
  redrive: "Redrive",
  redriveAll: "Redrive all open",
  redriveOne: (run: string, seq: number) => `Redrive ${run} up to seq ${seq}`,
  redriven: "redriven",
  word: "redrive all",
  look: "What it says",
  says: "What the message says",
  payloads: "Payloads of the events",
  lookAt: (run: string, seq: number) => `Message of run ${run}, up to seq ${seq}`,
  carried: "The content of the message. The log of the run has all of it.",
  nothing: "The log has no event there that you may read.",
  harmless:
    "The present state of the run is published again. Receivers that already have it, or a later state, ignore it.",
  more: "More than 200 were open: redrive again for the rest.",
  empty: "The event bus refused no message. One that it refuses appears here; the log of the run still has it.",
  ofDestinations: (n: number, destinations: number) =>
    `${plural(destinations, "destination")} ${destinations === 1 ? "keeps" : "keep"} ${plural(n, "dead letter")} of ${destinations === 1 ? "its" : "their"} own, which are not in this list:`,
  toDeliveries: "Deliveries",
};
