import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// DVT_SERVER is the `dvt dev` that `npm run dev` talks to.
const server = process.env["DVT_SERVER"] ?? "http://127.0.0.1:8080";
const proxied = { target: server, changeOrigin: true, ws: true, headers: { origin: server } };

// `vite build --mode gallery` builds the gallery of components, which only the tests have.
const GALLERY = { outDir: "e2e/out/gallery", emptyOutDir: true, rolldownOptions: { input: "gallery.html" } };

export default defineConfig(({ mode }) => ({
  plugins: [react()],
  server: { proxy: { "/graphql": proxied, "/dev/session": proxied } },
  // public/.keep puts back the placeholder that `go build` needs when dist is emptied. Nothing is
  // inlined: the content security policy allows no inline script and no inline style.
  build: { target: "es2023", assetsInlineLimit: 0, modulePreload: { polyfill: false }, manifest: true, ...(mode === "gallery" ? GALLERY : {}) },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
}));
