// The line of the first page about what runs. It is loaded with that page.
import { count } from "../format/format";

export const runsNow = {
  now: "Now:",
  nothing: "nothing runs or waits to start.",
  running: (n: number) => `${count(n)} running`,
  paused: (n: number) => `${count(n)} paused`,
  waiting: (n: number) => `${count(n)} not started`,
  late: (n: number) => (n === 0 ? "none is late" : `${count(n)} late`),
};
