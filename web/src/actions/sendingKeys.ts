import type { KeyboardEvent } from "react";

/** Ctrl Enter sends the form of an action from anywhere in it. What is strong is never sent by Enter alone. */
export function sendingKeys(strong: boolean): (event: KeyboardEvent<HTMLFormElement>) => void {
  return (event) => {
    if (event.key !== "Enter") return;
    if (event.metaKey || event.ctrlKey) event.currentTarget.requestSubmit();
    else if (strong && event.target instanceof HTMLInputElement) event.preventDefault();
  };
}
