import { useEffect, useState } from "react";
import * as z from "zod/mini";
import { ApiError } from "../api/error";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice } from "../ui/Page";
import { SIGNED_IN, wanted } from "./SignIn";

const answer = z.object({
  methods: z.array(z.object({ name: z.string(), label: z.string(), url: z.string() })),
  devLink: z.optional(z.boolean()),
});

type Method = z.infer<typeof answer>["methods"][number];

function reason(error: unknown): string | null {
  switch (new URLSearchParams(location.search).get("reason")) {
    case "refused":
      return m.signIn.refused;
    case "no-rights":
      return m.signIn.noRights;
    case "unavailable":
      return m.signIn.unavailable;
  }
  if (error instanceof ApiError && error.code === "TOKEN_EXPIRED") return m.signIn.expired;
  return sessionStorage.getItem(SIGNED_IN) === null ? null : m.signIn.ended;
}

/** The ways to sign in; null before the answer. `devLink`: by the link of `dvt dev link`. */
export interface Ways {
  methods: readonly Method[] | null;
  devLink: boolean;
  failed: boolean;
}

export function useMethods(): Ways {
  const [methods, setMethods] = useState<Method[] | null>(null);
  const [devLink, setDevLink] = useState(false);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    fetch("/auth/methods", { credentials: "same-origin", signal: abort.signal })
      .then(async (response) => {
        const said = answer.parse(await response.json());
        setMethods(said.methods);
        setDevLink(said.devLink ?? false);
      })
      .catch(() => {
        if (!abort.signal.aborted) setFailed(true);
      });
    return () => abort.abort();
  }, []);
  return { methods, devLink, failed };
}

interface MethodsProps extends Ways {
  /** The address to open after the sign-in. */
  to: string;
  newWindow?: boolean;
}

export function Methods({ methods, devLink, failed, to, newWindow = false }: MethodsProps) {
  return (
    <>
      {devLink && <DevLink />}
      {methods?.map((method) => (
        <p key={method.name}>
          <a
            href={`${method.url}&${new URLSearchParams({ to }).toString()}`}
            {...(newWindow ? { target: "_blank", rel: "noreferrer" } : {})}
          >
            {m.signIn.with(method.label)}
          </a>
        </p>
      ))}
      {failed && (
        <p>
          {m.signIn.unavailable} <Button onClick={() => location.reload()}>{m.run.retry}</Button>
        </p>
      )}
    </>
  );
}

/** Explains the sign-in of `dvt dev`: anybody on the machine can open the page, only its owner can sign in. */
function DevLink() {
  return <p>{m.signIn.devLink.map((part, i) => (i % 2 === 1 ? <code key={part}>{part}</code> : part))}</p>;
}

/** The sign-in page: why nobody is signed in, and the ways to sign in, which lead back here. */
export function SignIn({ error }: { error: unknown }) {
  const ways = useMethods();
  useDocumentStatus(m.signIn.title);
  const why = reason(error);
  return (
    <main>
      <Notice title={m.signIn.title}>
        {why !== null && <p role="alert">{why}</p>}
        <Methods {...ways} to={wanted(location)} />
        {ways.methods?.length === 0 && !ways.devLink && <p>{m.signIn.none}</p>}
      </Notice>
    </main>
  );
}
