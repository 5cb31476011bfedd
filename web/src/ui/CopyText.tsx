import { Check, Copy } from "lucide-react";
import { useState } from "react";
import { m } from "../messages";
import { Button } from "./Button";

interface CopyTextProps {
  /** What is copied, in words. */
  name: string;
  text: string;
}

/** A text that is too long to be typed, with a button that copies it. */
export function CopyText({ name, text }: CopyTextProps) {
  const [copied, setCopied] = useState(false);
  const Icon = copied ? Check : Copy;
  return (
    <>
      <code>{text}</code>{" "}
      <Button
        kind="quiet"
        label={copied ? m.page.copied : m.page.copy(name)}
        onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
      >
        <Icon size={13} aria-hidden="true" />
      </Button>
    </>
  );
}
