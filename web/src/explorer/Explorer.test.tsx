import { within } from "@testing-library/react";
import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { Explorer, isSubscription, parseVariables } from "./Explorer";
import { findTypes, type SchemaType, written } from "./schema";

const named = (name: string, kind = "OBJECT") => ({ name, kind, ofType: null });
const RUN: SchemaType = {
  name: "Run",
  kind: "OBJECT",
  description: "An execution of a plan.",
  fields: [{ name: "runId", description: "Its id.", type: { name: null, kind: "NON_NULL", ofType: named("String") } }],
  inputFields: null,
  enumValues: null,
};
const QUERY: SchemaType = {
  ...RUN,
  name: "Query",
  description: null,
  fields: [{ name: "run", description: null, type: named("Run"), args: [{ name: "runId", description: "Which." }] }],
};
/** A type of the schema has the same name. */
const runButton = (): HTMLElement => {
  const [first] = screen.getAllByRole("button", { name: "Run" });
  if (!first) throw new Error("no button");
  return first;
};
const answers = { Schema: { schema: { types: [RUN, QUERY] } } };

it("runs the query with its variables and shows the answer as it is", async () => {
  const { user, sent } = await show(<Explorer />, { answers });
  await user.type(screen.getByLabelText("Variables (JSON)"), '{{"a":1}');
  await user.click(runButton());
  await vi.waitFor(() => expect(document.querySelector("pre")?.textContent).toBe('{\n  "data": {}\n}'));
  expect(sent.at(-1)?.variables).toEqual({ a: 1 });
});

it("says what is wrong with the variables and sends nothing", async () => {
  const { user, sent } = await show(<Explorer />, { answers });
  const before = sent.length;
  await user.type(screen.getByLabelText("Variables (JSON)"), "[[1]");
  await user.click(runButton());
  expect(screen.getByText(/not a JSON object/)).toBeDefined();
  expect(sent.length).toBe(before);
});

it("shows the types of the schema, the operations first, and leads from one to another", async () => {
  const { user } = await show(<Explorer />, { answers });
  const types = await screen.findAllByRole("listitem");
  expect(types.map((item) => item.textContent)).toEqual(["Query", "Run"]);
  await user.click(screen.getByRole("button", { name: "Query" }));
  await user.click(within(screen.getByRole("region", { name: "Schema" })).getByRole("button", { name: "Run" }));
  expect(screen.getByText("An execution of a plan.")).toBeDefined();
  expect(screen.getByText("Its id.")).toBeDefined();
});

it.each([
  ["subscription { a }", true],
  ["# subscription\nquery { a }", false],
  ["fragment F on A { b }\nsubscription S { ...F }", true],
])("tells a subscription from a query: %s", (text, is) => {
  expect(isSubscription(text)).toBe(is);
});

it("writes types as GraphQL does, and finds them by their fields", () => {
  const list = { name: null, kind: "LIST", ofType: { name: null, kind: "NON_NULL", ofType: named("Run") } };
  expect(written({ name: null, kind: "NON_NULL", ofType: list })).toEqual({ text: "[Run!]!", name: "Run" });
  expect(findTypes([RUN, QUERY], "runid")).toEqual([RUN]);
  expect(parseVariables("")).toEqual({});
});
