/** The own code of the UI for a lost connection has no entry there. */
const EXPLAINED = /^(?!NETWORK$)[A-Z][A-Z_]+$/;

/** A code with its explanation in the page of the API. */
export function ErrorCode({ code }: { code: string }) {
  if (!EXPLAINED.test(code)) return <code>{code}</code>;
  return (
    <a href={`/docs/api#${code}`} target="_blank" rel="noreferrer">
      <code>{code}</code>
    </a>
  );
}
