import { act, render } from "@testing-library/react";
import { expect, it } from "vitest";
import { screen, vi } from "../testing/render";
import { Announce } from "./Announce";

function said(): string | null {
  return screen.getByRole("status").textContent;
}

it("tells a screen reader the newest text, at most once in two seconds", () => {
  vi.useFakeTimers();
  const { rerender } = render(<Announce text="Running" />);
  rerender(<Announce text="Paused" />);
  act(() => vi.advanceTimersByTime(1));
  expect(said()).toBe("Paused");
  rerender(<Announce text="Running" />);
  rerender(<Announce text="Failed" />);
  act(() => vi.advanceTimersByTime(1_900));
  expect(said(), "less than two seconds later").toBe("Paused");
  act(() => vi.advanceTimersByTime(200));
  expect(said(), "the text in between was overtaken").toBe("Failed");
});
