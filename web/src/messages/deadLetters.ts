// Dead letters: messages that the bus refused.

export const dlq = {
  title: "Dead letters",
  run: "Run",
  seqs: "Seq",
  project: "Project",
  tries: "Tries",
  cause: "Last error",
  since: "Given up",
  result: "Redrive",
  all: "Show redriven too",
  noneOpen: "No dead letter is open.",
  redrive: "Redrive",
  redriveAll: "Redrive all open",
  redriveOne: (run: string, seq: number) => `Redrive ${run} up to seq ${seq}`,
  redriven: "redriven",
  word: "redrive all",
  look: "Show",
  lookAt: (run: string, seq: number) => `Message of run ${run}, up to seq ${seq}`,
  carried: "The content of the message. The log of the run has all of it.",
  nothing: "The log has no event there that you may read.",
  harmless:
    "The present state of the run is published again. Receivers that already have it, or a later state, ignore it.",
  more: "More than 200 were open: redrive again for the rest.",
  empty: "No dead letters. Messages that could not be delivered appear here; the log of the run still has them.",
};
