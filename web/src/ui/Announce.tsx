import { useEffect, useRef, useState } from "react";
import prose from "../styles/Prose.module.css";

const APART_MS = 2_000;

/**
 * Announces a change to screen readers, politely and at most once in two seconds. Of several changes only the last is
 * announced.
 */
export function Announce({ text }: { text: string }) {
  const [said, say] = useState(text);
  const last = useRef(0);
  useEffect(() => {
    if (text === said) return;
    const timer = setTimeout(
      () => {
        last.current = Date.now();
        say(text);
      },
      Math.max(0, last.current + APART_MS - Date.now()),
    );
    return () => clearTimeout(timer);
  }, [text, said]);
  return (
    <span role="status" className={prose.hidden}>
      {said}
    </span>
  );
}
