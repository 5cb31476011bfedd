import { OctagonPause, TriangleAlert } from "lucide-react";
import { useEffect, useState } from "react";
import { follow } from "../api/follow";
import { ServiceUpdatesDocument } from "../api/gen/graphql";
import { m } from "../messages";
import { type Notice, notices, type ServiceState } from "./service";
import { Time } from "../ui/Time";
import css from "./ServiceBanner.module.css";

/** A banner on every page while no new run starts: why, since when, and what still works. */
export function ServiceBanner() {
  const [state, setState] = useState<ServiceState | null>(null);
  useEffect(() => {
    const following = follow(
      ServiceUpdatesDocument,
      {},
      {
        next: ({ serviceUpdates }) => setState(serviceUpdates),
        refused: () => setState(null),
      },
    );
    return following.close;
  }, []);
  return notices(state).map((notice) => <ServiceNotice key={notice.kind} notice={notice} />);
}

export function ServiceNotice({ notice: { kind, text, still, reason, since } }: { notice: Notice }) {
  const Icon = kind === "DEGRADED" ? TriangleAlert : OctagonPause;
  return (
    <div className={css.banner} role="status" data-service={kind}>
      <Icon size={16} aria-hidden="true" />
      <p>
        <strong>{text}</strong> {still} {reason && m.serviceBanner.because(reason)}{" "}
        {since !== null && (
          <span className={css.since}>
            {m.serviceBanner.since} <Time at={since} format="full" />
          </span>
        )}
      </p>
    </div>
  );
}
