import { layout, type Wires } from "./layout";

addEventListener("message", ({ data }: MessageEvent<Wires>) => postMessage(layout(data), { transfer: [] }));
