import { render } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { useState } from "react";
import { expect, it } from "vitest";
import { screen, vi } from "../testing/render";
import { type LineProblem, PlanEditor } from "./PlanEditor";

const SCHEMA = {
  type: "object",
  properties: { schemaVersion: { enum: ["v1.2"], description: "The version." }, steps: { type: "array" } },
};

function Editor({ problems = [] }: { problems?: LineProblem[] }) {
  const [text, setText] = useState("");
  return (
    <PlanEditor
      text={text}
      change={setText}
      problems={problems}
      invalid={false}
      describedBy=""
      onDrop={() => {}}
      ref={null}
    />
  );
}

async function edit(problems: LineProblem[] = []) {
  vi.stubGlobal("fetch", () => Promise.resolve(Response.json(SCHEMA)));
  render(<Editor problems={problems} />);
  await new Promise((resolve) => setTimeout(resolve, 10)); // the schema has arrived
  return { user: userEvent.setup(), text: screen.getByRole<HTMLTextAreaElement>("textbox") };
}

it("offers what the schema knows, by keys", async () => {
  const { user, text } = await edit();
  await user.type(text, "s");
  expect(screen.getAllByRole("option").map((option) => option.textContent)).toEqual([
    "schemaVersion The version.",
    "steps ",
  ]);
  expect(text.getAttribute("aria-activedescendant")).toBe(screen.getAllByRole("option")[0]?.id);
  await user.keyboard("{ArrowDown}{Enter}");
  expect(text.value).toBe("steps:\n  - ");
  expect(screen.queryByRole("listbox")).toBeNull();
});

it("closes the list on Esc, and Tab without a list leaves the field", async () => {
  const { user, text } = await edit();
  await user.type(text, "s{Escape}");
  expect(screen.queryByRole("listbox")).toBeNull();
  await user.tab();
  expect(document.activeElement).not.toBe(text);
});

it("keeps the indentation of a new line", async () => {
  const { user, text } = await edit();
  await user.type(text, "x:{Enter}y: 1{Enter}z");
  expect(text.value).toBe("x:\n  y: 1\n  z");
});

it("marks the lines with problems", async () => {
  const { text } = await edit([{ line: 1, message: "steps: add at least one step" }]);
  const mark = text.closest("div")?.querySelector("[data-problem]");
  expect(mark?.textContent).toBe("✕ 1");
  expect(mark?.getAttribute("title")).toBe("steps: add at least one step");
});

it("replaces the text by a plan that is pasted, and inserts any other text", async () => {
  const { user, text } = await edit();
  await user.type(text, "steps: [[]");
  await user.paste("schemaVersion: v1.2\nsteps:\n  - stepId: a\n");
  expect(text.value).toBe("schemaVersion: v1.2\nsteps:\n  - stepId: a\n");
  await user.paste("    name: b\n");
  expect(text.value).toBe("schemaVersion: v1.2\nsteps:\n  - stepId: a\n    name: b\n");
});
