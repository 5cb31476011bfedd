import type { Instant } from "../format/format";

const SAMPLES = 9;

/**
 * The server's clock: the local clock with the median offset of the last frames, so that one late frame moves nothing.
 */
export class ServerClock {
  readonly #local: () => number;
  #offsets: number[] = [];
  #offset = 0;

  constructor(local: () => number) {
    this.#local = local;
  }

  observe(asOf: Instant): void {
    this.#offsets.push(asOf - this.#local());
    if (this.#offsets.length > SAMPLES) this.#offsets.shift();
    const sorted = this.#offsets.toSorted((a, b) => a - b);
    this.#offset = sorted[Math.floor(sorted.length / 2)] ?? 0;
  }

  now(): Instant {
    return this.#local() + this.#offset;
  }
}
