import { Link } from "@tanstack/react-router";
import { DestinationsDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { dlq as dlqWords } from "../messages/deadLetters";
import { useCan } from "../session/useCan";
import css from "../styles/Form.module.css";

/** Names the dead letters of destinations, because without them an empty list reads as if all had been delivered. */
export function DestinationLetters() {
  const mayDebug = useCan("DEBUG") === null;
  const { answer } = useQuery(DestinationsDocument, mayDebug ? {} : null, ({ destinations }) => destinations);
  const keeping = (answer ?? []).filter(({ deadLetters }) => deadLetters > 0);
  if (keeping.length === 0) return null;
  const all = keeping.reduce((sum, { deadLetters }) => sum + deadLetters, 0);
  return (
    <p className={css.row} data-testid="of-destinations">
      <span className={css.tone} data-tone="warn">
        {dlqWords.ofDestinations(all, keeping.length)}
      </span>
      <Link to="/deliveries">{dlqWords.toDeliveries}</Link>
    </p>
  );
}
