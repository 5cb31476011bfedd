import { Check, Copy } from "lucide-react";
import { useState } from "react";
import { m } from "../messages";
import { Button } from "./Button";

interface CopyTextProps {
  /** The name of the text, for the label of the button. */
  name: string;
  text: string;
  /** A shorter form to show; the whole text is copied. */
  shown?: string;
}

/** A long text with a button that copies it. */
export function CopyText({ name, text, shown = text }: CopyTextProps) {
  return (
    <>
      <code title={shown === text ? undefined : text}>{shown}</code> <CopyButton name={name} text={text} />
    </>
  );
}

export function CopyButton({ name, text }: CopyTextProps) {
  const [copied, setCopied] = useState(false);
  const Icon = copied ? Check : Copy;
  return (
    <Button
      kind="quiet"
      label={copied ? m.page.copied : m.page.copy(name)}
      onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
    >
      <Icon size={13} aria-hidden="true" />
    </Button>
  );
}
