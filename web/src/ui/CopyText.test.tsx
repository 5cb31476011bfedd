import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { CopyText } from "./CopyText";

it("copies the text, and says that it did", async () => {
  const { user } = await show(<CopyText name="SHA-256" text="9f2c" />);
  await user.click(screen.getByRole("button", { name: "Copy SHA-256" }));
  expect(await navigator.clipboard.readText()).toBe("9f2c");
  expect(await screen.findByRole("button", { name: "Copied" })).toBeDefined();
});
