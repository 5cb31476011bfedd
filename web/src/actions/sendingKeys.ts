import type { KeyboardEvent } from "react";

/** Ctrl Enter sends the form of an action from any of its fields. Enter alone never sends a strong action. */
export function sendingKeys(strong: boolean): (event: KeyboardEvent<HTMLFormElement>) => void {
  return (event) => {
    if (event.key !== "Enter") return;
    if (event.metaKey || event.ctrlKey) event.currentTarget.requestSubmit();
    else if (strong && event.target instanceof HTMLInputElement) event.preventDefault();
  };
}
