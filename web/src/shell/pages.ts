/** The pages of the navigation, with the key that follows `g`. */
export const PAGES = [
  { to: "/", name: "attention", key: "n" },
  { to: "/runs", name: "runs", key: "r" },
  { to: "/plans", name: "plans", key: "p" },
  { to: "/inbox", name: "inbox", key: "i" },
  { to: "/queue", name: "queue", key: "q" },
  { to: "/dlq", name: "dlq", key: "d" },
  { to: "/audit", name: "audit", key: "a" },
  { to: "/admin", name: "admin", key: "m" },
  { to: "/health", name: "health", key: "h" },
] as const;

/** Pages outside the navigation bar that have a key after g. */
export const MORE_PAGES = [
  { to: "/compare", name: "compare", key: "c" },
  { to: "/workers", name: "workers", key: "w" },
  { to: "/alerts", name: "alerts", key: "l" },
  { to: "/incidents", name: "incidents", key: "e" },
  { to: "/deliveries", name: "deliveries", key: "v" },
] as const;
