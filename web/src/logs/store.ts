// The log of one attempt, held in windows by line number. Visible windows are fetched; the one used longest ago is
// dropped.
import type { LogLine } from "../api/model";
import type { Gap } from "./gap";

export const WINDOW = 1_000;
const WINDOWS_KEPT = 30;

export interface Page {
  lines: readonly LogLine[];
  totalLines: number;
  missing: Gap | null;
}

export interface Begin {
  totalLines: number;
  missing: Gap | null;
  /** The line at which the error of the attempt begins. */
  errorLine: number | null;
}

export interface Source {
  begin: () => Promise<Begin>;
  page: (fromLine: number, first: number) => Promise<Page>;
}

export class LogStore {
  readonly #source: Source;
  /** In the order of use, the latest at the end. */
  #windows = new Map<number, Map<number, LogLine>>();
  #pending = new Set<number>();
  #total: number | null = null;
  #missing: Gap | null = null;
  #errorLine: number | null = null;
  readonly #streams = new Set<string>();
  #complete = false;
  #error: unknown = null;
  #version = 0;
  #listeners = new Set<() => void>();

  constructor(source: Source) {
    this.#source = source;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  /** Grows with every change of the store. */
  readonly version = (): number => this.#version;
  /** The number of the last line, or null before the first answer. */
  get total(): number | null {
    return this.#total;
  }
  /** The lines that were dropped between the beginning and the end. */
  get missing(): Gap | null {
    return this.#missing;
  }
  get errorLine(): number | null {
    return this.#errorLine;
  }
  get complete(): boolean {
    return this.#complete;
  }
  get error(): unknown {
    return this.#error;
  }
  /** The lines were read from two streams, so the order of the lines of one to those of the other is not known. */
  get unordered(): boolean {
    return this.#streams.has("stdout") && this.#streams.has("stderr");
  }
  line(no: number): LogLine | undefined {
    return this.#windows.get(Math.floor((no - 1) / WINDOW))?.get(no);
  }

  /** Reads the length of the log and the line of its error. Call it before `ensure`. */
  async begin(): Promise<void> {
    try {
      const { totalLines, missing, errorLine } = await this.#source.begin();
      this.#grow(totalLines, missing);
      this.#errorLine = errorLine;
      this.#error = null;
    } catch (cause) {
      this.#error = cause;
    }
    this.#tell();
  }

  /** Reads at which line the error begins, after the attempt has ended. */
  async findError(): Promise<void> {
    this.#errorLine = (await this.#source.begin()).errorLine;
    this.#tell();
  }

  /** Fetches the windows of these lines that are not held. */
  async ensure(from: number, to: number): Promise<void> {
    const first = Math.floor((Math.max(1, from) - 1) / WINDOW);
    const last = Math.floor((Math.max(1, to) - 1) / WINDOW);
    const missing: number[] = [];
    for (let index = first; index <= last; index++) {
      const held = this.#windows.get(index);
      if (held && held.size >= this.#sizeOf(index)) {
        this.#windows.delete(index);
        this.#windows.set(index, held);
      } else if (!this.#pending.has(index)) {
        missing.push(index);
      }
    }
    await Promise.all(missing.map((index) => this.#load(index)));
  }

  /** Adds lines that were just printed. */
  append({ lines, totalLines, missing }: Page, complete: boolean): void {
    this.#put(lines);
    this.#grow(totalLines, missing);
    this.#complete ||= complete;
    this.#tell();
  }

  /** The number of lines that a window has. */
  #sizeOf(index: number): number {
    const [before, end] = [index * WINDOW, Math.min((index + 1) * WINDOW, this.#total ?? Number.POSITIVE_INFINITY)];
    if (end === Number.POSITIVE_INFINITY) return end;
    const gap = this.#missing;
    const lost = gap ? Math.max(0, Math.min(end, gap.to - 1) - Math.max(before, gap.from - 1)) : 0;
    return end - before - lost;
  }

  #grow(totalLines: number, missing: Gap | null): void {
    this.#total = Math.max(this.#total ?? 0, totalLines);
    if (missing && missing.to > (this.#missing?.to ?? 0)) this.#missing = missing;
  }

  async #load(index: number): Promise<void> {
    this.#pending.add(index);
    try {
      const page = await this.#source.page(index * WINDOW + 1, WINDOW);
      this.#put(page.lines);
      if (!this.#windows.has(index)) this.#windows.set(index, new Map());
      this.#grow(page.totalLines, page.missing);
      this.#error = null;
    } catch (cause) {
      this.#error = cause;
    } finally {
      this.#pending.delete(index);
      this.#tell();
    }
  }

  #put(lines: readonly LogLine[]): void {
    for (const line of lines) {
      const index = Math.floor((line.no - 1) / WINDOW);
      const window = this.#windows.get(index) ?? new Map<number, LogLine>();
      window.set(line.no, line);
      this.#streams.add(line.stream);
      this.#windows.set(index, window);
    }
    for (const index of this.#windows.keys()) {
      if (this.#windows.size <= WINDOWS_KEPT) break;
      this.#windows.delete(index);
    }
  }

  #tell(): void {
    this.#version += 1;
    for (const listener of this.#listeners) listener();
  }
}
