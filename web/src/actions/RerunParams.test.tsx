import { fireEvent } from "@testing-library/react";
import { useState } from "react";
import { expect, it } from "vitest";
import { description, screen, show } from "../testing/render";
import { problemOfParams } from "./draft";
import { RerunParams } from "./RerunParams";

/** The text of the form's field. */
const held = { text: "" };
/** Parameters of a run never change, so each test has a run of its own. */
let runs = 0;

function Form({ runId }: { runId: string }) {
  const [text, setText] = useState("");
  const change = (next: string): void => {
    held.text = next;
    setText(next);
  };
  return <RerunParams runId={runId} text={text} change={change} problem={problemOfParams(text)} />;
}

const form = (params: object | null = { day: "2026-11-26", full: true }) =>
  show(<Form runId={`params-${++runs}`} />, { answers: { RunParams: { run: { request: { params } } } } });

it("begins with the parameters of the run, and says what one change changes", async () => {
  const { user } = await form();
  const day = await screen.findByLabelText("Value of parameter 1");
  expect(day).toHaveProperty("value", "2026-11-26");
  fireEvent.change(day, { target: { value: "2026-11-27" } });
  expect(JSON.parse(held.text)).toEqual({ day: "2026-11-27", full: true });
  expect(screen.getByTestId("params-changed").textContent).toBe("day changes from 2026-11-26 to 2026-11-27");
  await user.click(screen.getByRole("button", { name: "Keep those of this run" }));
  expect(held.text).toBe("");
});

it("says at the JSON what is wrong with it", async () => {
  const { user } = await form();
  await user.click(await screen.findByRole("button", { name: "JSON" }));
  const json = screen.getByLabelText("Parameters (JSON)");
  fireEvent.change(json, { target: { value: "{" } });
  expect(json.getAttribute("aria-invalid")).toBe("true");
  expect(description(json)).toMatch(/^This is not JSON:/);
});

it("sends no hidden value as if it were the value", async () => {
  await form({ token: "***", day: "1" });
  fireEvent.change(await screen.findByLabelText("Value of parameter 2"), { target: { value: "2" } });
  expect(screen.getByText(/A value is hidden here/)).toBeDefined();
});

it("sends an empty object when every parameter is removed", async () => {
  const { user } = await form({ day: "1" });
  await user.click(await screen.findByRole("button", { name: "Remove day" }));
  expect(held.text).toBe("{}");
});
