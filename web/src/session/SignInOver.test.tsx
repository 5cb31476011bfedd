import { act } from "@testing-library/react";
import { expect, it } from "vitest";
import { ApiError } from "../api/error";
import { endSession, sessionEnd } from "../api/session";
import { screen, show, vi } from "../testing/render";
import { Methods } from "./SignInPage";
import { SignInOver } from "./SignInOver";

it("asks to sign in over the page, and goes away when the same principal is signed in again", async () => {
  endSession(new ApiError("expired", { code: "TOKEN_EXPIRED" }));
  const { sent } = await show(<SignInOver principal="ana" />, {
    answers: { Viewer: { viewer: { principal: "ana", signals: [] } } },
  });
  expect(screen.getByRole("dialog", { name: "Sign in to dvt" })).toBeDefined();
  expect(screen.getByRole("alert").textContent).toMatch(/^Your session has expired/);
  act(() => void dispatchEvent(new Event("focus")));
  await vi.waitFor(() => expect(sessionEnd()).toBeNull());
  expect(sent.map(({ name }) => name)).toContain("Viewer");
});

it("offers each way to sign in, which leads back to where one was", async () => {
  const methods = [{ name: "oidc", label: "Acme", url: "/auth/oidc?provider=acme" }];
  await show(<Methods methods={methods} devLink={false} failed={false} to="/runs?env=prod" />);
  const link = screen.getByRole("link", { name: "Sign in with Acme" });
  expect(link.getAttribute("href")).toBe("/auth/oidc?provider=acme&to=%2Fruns%3Fenv%3Dprod");
});
