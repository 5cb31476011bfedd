import { expect, test } from "vitest";
import { clockTime } from "../format/format";
import { forecastWords } from "./forecast";

const at = (time: string): number => Date.parse(`2026-11-20T${time}Z`);
const utc = (moment: number): string => clockTime(moment, "utc");

test("a forecast has seconds where they matter", () => {
  expect(forecastWords({ low: at("03:31:10"), high: at("03:44:50") }, at("03:20:00"), utc)).toEqual({
    late: false,
    from: "03:31",
    to: "03:44",
  });
  expect(forecastWords({ low: at("03:31:10"), high: at("03:31:50") }, at("03:31:00"), utc)).toEqual({
    late: false,
    from: "03:31:10",
    to: "03:31:50",
  });
});

test("never begins in the past", () => {
  expect(forecastWords({ low: at("03:31:10"), high: at("03:31:50") }, at("03:31:20"), utc)).toEqual({
    late: false,
    from: null,
    to: "03:31:50",
  });
});

test("calls a run late that took longer than the forecast", () => {
  expect(forecastWords({ low: at("03:31:10"), high: at("03:44:50") }, at("03:44:51"), utc)).toEqual({ late: true });
});
