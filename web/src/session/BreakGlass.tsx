// Break-glass: the policy names people who may take a role for some minutes. The button is there only for them, and
// beside a refusal only if the role gives the right that they lack.
import { useState, Suspense } from "react";
import { lazyPart } from "../ui/lazyPart";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { useViewer } from "./viewer";

const BreakGlassDialog = lazyPart(() => import("./BreakGlassDialog").then((part) => part.BreakGlassDialog));

export function BreakGlassButton({ lacks }: { lacks?: string | null }) {
  const { breakGlass } = useViewer();
  const [open, setOpen] = useState(false);
  const roles = breakGlass.filter(({ actions }) => !lacks || (actions as readonly string[]).includes(lacks));
  if (roles.length === 0) return null;
  return (
    <>
      <Button kind="danger" onClick={() => setOpen(true)}>
        {m.breakGlass.open}…
      </Button>
      {open && (
        <Suspense>
          <BreakGlassDialog roles={roles} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
