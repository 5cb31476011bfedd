import { expect, it } from "vitest";
import { artifactAddress, isReadable } from "./artifacts";

it("gives the address of an artifact of the run only", () => {
  expect(artifactAddress("r1", "artifact:acme/r1/load/1/2/run%20results.json")).toBe(
    "/artifacts/r1/load/1/2/run%20results.json",
  );
  expect(artifactAddress("r1", "artifact:acme/r2/load/1/2/a.json")).toBeNull();
  expect(artifactAddress("r1", "s3://bucket/r1/a.json")).toBeNull();
});

it("knows which files a preview can show", () => {
  expect(["a.json", "a.SQL", "a.yml", "a.bin", "a.png", "json"].map(isReadable)).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
  ]);
});
