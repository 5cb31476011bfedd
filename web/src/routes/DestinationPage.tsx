import { getRouteApi } from "@tanstack/react-router";
import { DestinationView } from "../deliveries/DestinationView";

const route = getRouteApi("/deliveries/$name");

export function DestinationPage() {
  const { name } = route.useParams();
  return <DestinationView name={name} />;
}
