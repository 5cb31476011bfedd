import { useState } from "react";
import { m } from "../messages";
import css from "../styles/Form.module.css";
import { Announce } from "../ui/Announce";
import { Button } from "../ui/Button";
import type { CopySubject } from "./offer";
import { listTexts, rerunTexts, runTexts, signalTexts, type Texts } from "./texts";

const FORMS = ["cli", "curl", "graphql"] as const;

function textsOf(subject: CopySubject): Texts | null {
  switch (subject.of) {
    case "run":
      return runTexts(location.origin, subject.runId);
    case "list":
      return listTexts(location.origin, subject.filter);
    case "signal":
      return signalTexts(location.origin, subject);
    case "rerun":
      return rerunTexts(location.origin, subject);
  }
}

export function CopyButtons({ subject }: { subject: CopySubject }) {
  const [copied, setCopied] = useState<(typeof FORMS)[number] | null>(null);
  const texts = textsOf(subject);
  if (texts === null) return null;
  return (
    <span className={css.hint} role="group" aria-label={m.copyAs.title}>
      {m.copyAs.title}
      {FORMS.map((form) => (
        <Button
          key={form}
          kind="quiet"
          label={m.copyAs.copy(m.copyAs.forms[form])}
          onClick={() => void navigator.clipboard.writeText(texts[form]).then(() => setCopied(form))}
        >
          {copied === form ? m.page.copied : m.copyAs.forms[form]}
        </Button>
      ))}
      <Announce text={copied === null ? "" : m.copyAs.done(m.copyAs.forms[copied])} />
    </span>
  );
}
