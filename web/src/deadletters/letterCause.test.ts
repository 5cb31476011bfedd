import { expect, it } from "vitest";
import { causeOf, groupsOf } from "./letterCause";

it.each([
  ["OOM command not allowed when used memory > 'maxmemory'.", "Redis has no memory left."],
  ["READONLY You can't write against a read only replica.", "Redis is a replica that cannot be written."],
  ["WRONGPASS invalid username-password pair", "Redis refuses the credentials of dvt."],
  ["ERR Protocol error: invalid bulk length", "The message is larger than Redis accepts."],
  ["dial tcp 10.0.0.1:6379: connection refused", "Redis did not answer."],
])("says what %s means", (error, says) => {
  expect(causeOf(error)?.says).toBe(says);
});

it("keeps an error that it does not know", () => {
  expect(causeOf("410 Gone")).toBeNull();
});

const letter = (runId: string, cause: string, buriedAt: string, redrivenAt: string | null = null) => ({
  runId,
  cause,
  buriedAt,
  redrivenAt,
});

it("counts the open letters of each cause, and their runs", () => {
  expect(
    groupsOf([
      letter("r1", "410 Gone", "2026-11-28T03:00:00Z"),
      letter("r1", "OOM command not allowed", "2026-11-28T02:00:00Z"),
      letter("r1", "OOM command not allowed: maxmemory", "2026-11-28T01:00:00Z"),
      letter("r2", "OOM command not allowed", "2026-11-28T00:00:00Z", "2026-11-28T04:00:00Z"),
    ]).map(({ says, messages, runs, since }) => [says, messages, runs, since]),
  ).toEqual([
    ["Redis has no memory left.", 2, 1, "2026-11-28T01:00:00Z"],
    ["410 Gone", 1, 1, "2026-11-28T03:00:00Z"],
  ]);
});

const passes = (...causes: string[]) =>
  groupsOf(causes.map((cause, i) => letter(`r${i}`, cause, "2026-11-28T03:00:00Z"))).map((group) => group.passes);

it("says that only an outage of the bus passes by itself", () => {
  expect(passes("dial tcp 10.0.0.1:6379: connection refused", "LOADING Redis is loading")).toEqual([true, true]);
  expect(passes("OOM command not allowed", "ERR invalid bulk length", "410 Gone")).toEqual([false, false, false]);
});
