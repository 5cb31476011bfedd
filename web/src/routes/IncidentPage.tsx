import { getRouteApi } from "@tanstack/react-router";
import { IncidentView } from "../incidents/IncidentView";

const route = getRouteApi("/incidents/$incidentId");

export function IncidentPage() {
  const { incidentId } = route.useParams();
  return <IncidentView incidentId={incidentId} />;
}
