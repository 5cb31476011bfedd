import { readFileSync } from "node:fs";
import { buildSchema, parse, validate } from "graphql";
import { expect, it } from "vitest";
import { EXAMPLES } from "./examples";

const schema = buildSchema(readFileSync(new URL("../../../schema.graphqls", import.meta.url), "utf8"), {
  assumeValidSDL: true,
});

it.each(EXAMPLES)("the example $name is valid, and its variables are an object", ({ query, variables }) => {
  expect(validate(schema, parse(query)).map(({ message }) => message)).toEqual([]);
  expect(typeof JSON.parse(variables === "" ? "{}" : variables)).toBe("object");
});
