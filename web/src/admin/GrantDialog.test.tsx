import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import type { PolicyInput } from "../api/gen/graphql";
import { screen, show, vi } from "../testing/render";
import { GrantDialog } from "./GrantDialog";

const ANA = { principal: "ana", role: "ADMIN", projectId: "*", environmentId: "*" };
const BEN = { principal: "ben", role: "OPERATOR", projectId: "shop", environmentId: "*" };
const POLICY: PolicyInput = { grants: [ANA, BEN] };

function Preview({ document }: { document: unknown }) {
  return <p>{(document as PolicyInput).grants.map(({ principal }) => principal).join(" ")}</p>;
}

type Save = (change: { document: PolicyInput; reason: string; requestId: string }) => Promise<void>;

async function dialog(remove: number | null) {
  const save = vi.fn<Save>(() => Promise.resolve());
  const view = await show(
    <GrantDialog policy={POLICY} remove={remove} preview={Preview} save={save} onClose={() => {}} />,
  );
  return { ...view, save };
}

it("adds one grant with a day on which it ends, after it showed the effect", async () => {
  const { user, save } = await dialog(null);
  await user.type(screen.getByLabelText("Principal"), "zoe");
  await user.selectOptions(screen.getByLabelText("Role"), "Planner");
  fireEvent.change(screen.getByLabelText(/^Ends after this day/), { target: { value: "2026-12-31" } });
  expect(screen.getByRole("region", { name: "What this changes" }).textContent).toContain("ana ben zoe");
  await user.type(screen.getByLabelText(/^Reason/), "release");
  await user.click(screen.getByRole("button", { name: "Add a grant" }));
  await vi.waitFor(() => expect(save).toHaveBeenCalledOnce());
  expect(save.mock.calls[0]?.[0].document.grants).toEqual([
    ANA,
    BEN,
    { principal: "zoe", role: "PLANNER", projectId: "*", environmentId: "*", expiresAt: "2026-12-31T23:59:59.000Z" },
  ]);
});

it("removes one grant, and only with a reason", async () => {
  const { user, save } = await dialog(1);
  const button = screen.getByRole("button", { name: "Remove" });
  expect(button.getAttribute("aria-disabled")).toBe("true");
  await user.type(screen.getByLabelText(/^Reason/), "left");
  await user.click(button);
  await vi.waitFor(() =>
    expect(save.mock.calls[0]?.[0]).toMatchObject({ document: { grants: [ANA] }, reason: "left" }),
  );
});
