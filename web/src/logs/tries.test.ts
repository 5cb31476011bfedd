import { expect, it } from "vitest";
import { announcedTry, beginsTry } from "./tries";

const line = (text: string, engineAttemptId = 1, stream = "dvt") => ({
  no: 1,
  at: 1_000,
  stream,
  engineAttemptId,
  text,
});

it("reads when the next try starts", () => {
  expect(announcedTry(line("try 2 of 3 starts in 8s"))).toEqual({ no: 2, of: 3, at: 9_000 });
  expect(announcedTry(line("try 3 of 3 starts in 1m30.5s"))?.at).toBe(91_500);
  expect(announcedTry(line("try 2 of 2 starts in 500ms"))?.at).toBe(1_500);
  expect(announcedTry(line("try 2 of 2 starts in 4 min 41 s"))?.at).toBe(282_000);
  expect(announcedTry(line("try 2 of 2 starts in 2 h 5 min"))?.at).toBe(7_501_000);
  expect(announcedTry(line("try 2 of 2 starts in 1.5 s"))?.at).toBe(2_500);
  expect(announcedTry(line("try 2 of 3 starts in 8s", 1, "stdout"))).toBeNull();
  expect(announcedTry(undefined)).toBeNull();
});

it("says which line begins another try", () => {
  const announced = line("try 2 of 3 starts in 8s");
  expect(beginsTry(line("again", 2), announced)).toEqual({ no: 2, of: 3 });
  expect(beginsTry(line("again", 2), line("ended"))).toEqual({ no: 2, of: null });
  expect(beginsTry(line("more", 1), line("ended"))).toBeNull();
  expect(beginsTry(line("again", 2), undefined)).toBeNull();
});
