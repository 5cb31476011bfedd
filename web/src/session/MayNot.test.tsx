import { expect, it } from "vitest";
import { description, of, screen, show, vi } from "../testing/render";
import { Button } from "../ui/Button";
import { MayNot, useMay } from "./MayNot";

function Page() {
  const may = useMay("SET_POLICY");
  return (
    <>
      <Button refusal={may.refusal} saidBy={may.saidBy}>
        Edit
      </Button>
      <MayNot of={may} />
    </>
  );
}

const holders = (names: string[], more = false): Record<string, unknown> => ({
  RightHolders: { rightHolders: [{ action: "SET_POLICY", names, more }] },
});

it("says as text who can do what the viewer may not, and the button is described by it", async () => {
  await show(<Page />, { answers: holders(["ana", "ben", "eva", "kim", "zoe"]) });
  const text = "You need the Admin role to change the policy. Who can do this: ana, ben, eva and 2 others.";
  await vi.waitFor(() => expect(screen.getByText(text)).toBeDefined());
  expect(description(screen.getByRole("button"))).toBe(text);
  expect(screen.queryByRole("tooltip"), "nothing has to be hovered").toBeNull();
});

it("does not count beyond the names that the server gives", async () => {
  await show(<Page />, { answers: holders(["a", "b", "c", "d"], true) });
  await vi.waitFor(() => expect(screen.getByText(/Who can do this: a, b, c and others\.$/)).toBeDefined());
});

it("names the role when nobody may be named", async () => {
  await show(<Page />, { answers: holders([]) });
  await vi.waitFor(() => expect(screen.getByText("You need the Admin role to change the policy.")).toBeDefined());
});

it("names the role that the server's policy asks for, in place of the role by default", async () => {
  const needs = "You need the Engineer role to change the policy.";
  await show(<Page />, {
    answers: { RightHolders: { rightHolders: [{ action: "SET_POLICY", needs, names: ["eva"], more: false }] } },
  });
  await vi.waitFor(() => expect(screen.getByText(`${needs} Who can do this: eva.`)).toBeDefined());
});

it("asks nothing of somebody who may", async () => {
  const { sent } = await show(<Page />, { viewer: { actions: new Set(["SET_POLICY"]) } });
  expect(of(sent, "RightHolders")).toEqual([]);
  expect(screen.getByRole("button").getAttribute("aria-disabled")).toBeNull();
});
