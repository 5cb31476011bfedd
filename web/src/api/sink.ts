// What a stream says to its caller.
import type { ApiError } from "./error";

export type Link = "connecting" | "open" | "closed";

export interface Sink<T> {
  next: (value: T) => void;
  /** The stream has ended; nothing follows. The caller decides whether to start another. */
  end: (error: ApiError) => void;
}
