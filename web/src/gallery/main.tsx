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
  createRoot(element).render(
    <StrictMode>
      <ViewerContext value={VIEWER}>
        <RouterProvider router={router} />
      </ViewerContext>
    </StrictMode>,
  );
}
