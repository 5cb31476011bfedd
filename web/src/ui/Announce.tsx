import { useEffect, useRef, useState } from "react";
import prose from "../styles/Prose.module.css";

const APART_MS = 2_000;

/** Tells screen readers of a change, politely and at most once in two seconds: what is skipped was overtaken by what is said. */
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
