import react from "@vitejs/plugin-react";
import type { HtmlTagDescriptor, Plugin } from "vite";
import { defineConfig } from "vitest/config";

// DVT_SERVER is the `dvt dev` that `npm run dev` talks to.
const server = process.env["DVT_SERVER"] ?? "http://127.0.0.1:8080";
const proxied = { target: server, changeOrigin: true, ws: true, headers: { origin: server } };

// `vite build --mode gallery` builds the gallery of components, which only the tests have.
const GALLERY = { outDir: "e2e/out/gallery", emptyOutDir: true, rolldownOptions: { input: "gallery.html" } };

const link = (rel: string, file: string): HtmlTagDescriptor => ({
  tag: "link",
  attrs: { rel, crossorigin: true, href: `/${file}` },
  injectTo: "head",
});

/** Lets the browser fetch what every page needs beside the script that asks for it, instead of after it. */
const preload: Plugin = {
  name: "preload-app",
  apply: "build",
  transformIndexHtml: {
    order: "post",
    handler: (html, { bundle }) => {
      const wanted = new Set<string>();
      const styles = new Set<string>();
      const add = (file: string): void => {
        const chunk = bundle?.[file];
        if (wanted.has(file) || chunk?.type !== "chunk") return;
        wanted.add(file);
        for (const style of chunk.viteMetadata?.importedCss ?? []) styles.add(style);
        for (const next of chunk.imports) add(next);
      };
      for (const [file, chunk] of Object.entries(bundle ?? {}))
        if (chunk.type === "chunk" && chunk.name === "app") add(file);
      const missing = (files: Set<string>): string[] => [...files].filter((file) => !html.includes(`"/${file}"`));
      return [
        ...missing(wanted).map((file) => link("modulepreload", file)),
        ...missing(styles).map((file) => link("stylesheet", file)),
      ];
    },
  },
};

export default defineConfig(({ mode }) => ({
  plugins: [react(), preload],
  server: { proxy: { "/graphql": proxied, "/dev/session": proxied, "/artifacts": proxied, "/logs": proxied } },
  // public/.keep puts back the placeholder that `go build` needs when dist is emptied. Nothing is
  // inlined: the content security policy allows no inline script and no inline style.
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
    ...(mode === "gallery" ? GALLERY : {}),
  },
  // Functions are tested in Node; components, whose tests are *.test.tsx, in a DOM.
  test: {
    testTimeout: 60_000,
    // The files of a kind share a process and the modules that they load, which take longer than the tests themselves.
    isolate: false,
    projects: [
      { extends: true, test: { name: "functions", include: ["src/**/*.test.ts"], environment: "node" } },
      {
        extends: true,
        test: {
          name: "components",
          include: ["src/**/*.test.tsx"],
          environment: "happy-dom",
          setupFiles: ["src/testing/setup.ts"],
          environmentOptions: { happyDOM: { url: "http://dvt.test/" } },
        },
      },
    ],
  },
}));
