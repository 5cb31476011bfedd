import "../styles/tokens.css";
import "../styles/base.css";
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { NOBODY, ViewerContext } from "../session/viewer";
import { ANSWERS } from "../testing/fixtures";
import { Gallery } from "./Gallery";

const VIEWER = { ...NOBODY, principal: "ana", tenantId: "acme", roles: ["ENGINEER"] };
// Links need a router. They lead nowhere.
const router = createRouter({ routeTree: createRootRoute({ component: Gallery }), history: createMemoryHistory() });

// Nothing here reaches a server.
window.fetch = () => Promise.resolve(Response.json(ANSWERS));

const element = document.getElementById("root");
if (element) {
  // A render that React repeats hides its error; a test must show it.
  createRoot(element, {
    onRecoverableError: (error) => reportError(error instanceof Error ? (error.cause ?? error) : error),
  }).render(
    <StrictMode>
      <ViewerContext value={VIEWER}>
        <RouterProvider router={router} />
      </ViewerContext>
    </StrictMode>,
  );
}
