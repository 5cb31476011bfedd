import type { CodegenConfig } from "@graphql-codegen/cli";

// Documents become strings with types: no GraphQL parser or printer reaches the browser.
const config: CodegenConfig = {
  schema: "../schema.graphqls",
  documents: ["src/api/*.graphql"],
  generates: {
    "src/api/gen/": {
      preset: "client",
      presetConfig: { fragmentMasking: false },
      config: {
        documentMode: "string",
        enumsAsTypes: true,
        useTypeImports: true,
        defaultScalarType: "unknown",
        skipTypename: true,
        scalars: { Seq: "number", Time: "string", Duration: "number", JSON: "unknown" },
      },
    },
  },
};

export default config;
