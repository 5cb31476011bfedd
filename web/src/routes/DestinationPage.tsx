import { getRouteApi } from "@tanstack/react-router";
import { DestinationView } from "../deliveries/DestinationView";
import { Gate } from "../session/MayNot";

const route = getRouteApi("/deliveries/$name");

export function DestinationPage() {
  const { name } = route.useParams();
  return (
    <Gate action="DEBUG" title={name}>
      <DestinationView name={name} />
    </Gate>
  );
}
