// When a run ends.
import { plural } from "../format/format";

export const ends = {
  about: (at: string, from: string, to: string) => `ends about ${at} (${from}–${to})`,
  by: (at: string, to: string) => `ends about ${at} (by ${to})`,
  late: (runs: number) => `slower than most of the last ${plural(runs, "run")}`,
  due: (at: string) => `due ${at}`,
  isLate: "late",
  mayBeLate: "will probably be late",
  missed: "missed its deadline",
  met: "in time",
  few: (runs: number, needed: number) => `no forecast yet: ${runs} of ${needed} runs`,
  waits: (step: string) => `no forecast: ${step} waits for a person`,
  unknown: (step: string) => `no forecast: ${step} is new, and no earlier step is like it`,
  basis: (runs: number) =>
    `Four of five runs end in this range, by the steps of ${plural(runs, "completed run")} and what has ended so far.`,
  similar: " The plan changed: new steps count like earlier ones of their name or type.",
};
