import { expect, it } from "vitest";
import { artifactAddress, formatted } from "./artifacts";

it("gives the address of an artifact of the run only", () => {
  expect(artifactAddress("r1", "artifact:acme/r1/load/1/2/run%20results.json")).toBe(
    "/artifacts/r1/load/1/2/run%20results.json",
  );
  expect(artifactAddress("r1", "artifact:acme/r2/load/1/2/a.json")).toBeNull();
  expect(artifactAddress("r1", "s3://bucket/r1/a.json")).toBeNull();
});

it("breaks JSON into lines, also when the preview cut its end, and leaves other text alone", () => {
  expect(formatted("a.json", '{"a":[1,{"b":"x,{y}"}]}')).toBe(
    '{\n  "a": [\n    1,\n    {\n      "b": "x,{y}"\n    }\n  ]\n}',
  );
  expect(formatted("a.json", '{"a":[1,{"b":"x,{y}"},{"c":"cut he')).toBe(
    '{\n  "a":[\n    1,\n    {\n      "b":"x,{y}"\n    },\n    {\n      "c":"cut he',
  );
  expect(formatted("a.sql", "select {a, b}")).toBe("select {a, b}");
});
