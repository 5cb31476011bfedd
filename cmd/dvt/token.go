package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

func tokenCommand() *cobra.Command {
	s := &session{}
	return s.command("token", "API tokens: create, list and revoke them", s.tokenCreate(), s.tokenList(), s.tokenRevoke())
}

func (s *session) tokenCreate() *cobra.Command {
	var role, project, environment, service, requestID string
	var days int
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a token; its secret is shown only once", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if days < 1 || days > 365 {
				return cmdline.Usage(errors.New("--days must be from 1 to 365"))
			}
			as, err := cmdline.Word("--role", role, client.AllRole)
			if err != nil {
				return err
			}
			until := time.Now().AddDate(0, 0, days).UTC().Truncate(time.Second)
			in := client.CreateTokenInput{
				RequestId: orNew(requestID), Name: args[0], ExpiresAt: &until,
				Grants: []client.TokenGrantInput{{Role: as, ProjectId: project, EnvironmentId: environment}},
			}
			if service != "" {
				in.Service = &service
			}
			out, err := client.CreateToken(c.Context(), s.client, in)
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.CreateToken)
			}
			t := out.CreateToken.Token
			fmt.Fprintf(c.ErrOrStderr(), "token %s of %s, until %s\n", t.TokenId, t.Principal, t.ExpiresAt.Format(time.RFC3339))
			if out.CreateToken.Secret == nil {
				return &cmdline.Error{
					Status: 1, Err: errors.New(
						"an earlier request with this id created the token, and its secret is not stored: revoke it and create another")}
			}
			_, err = fmt.Fprintln(s.out, *out.CreateToken.Secret)
			return err
		},
	}
	c.Flags().StringVar(
		&role, "role", "", "upper bound of its rights: VIEWER, OPERATOR, ENGINEER, ADMIN, PLANNER, SYSTEM or SRE")
	c.Flags().StringVar(&project, "project", "*", "only in this project; *: in all")
	c.Flags().StringVar(&environment, "environment", "*", "only in this environment; *: in all")
	c.Flags().StringVar(&service, "service", "", "create it for the principal service/NAME, not for yourself")
	c.Flags().IntVar(&days, "days", 90, "its lifetime in days, at most 365")
	c.Flags().StringVar(&requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
	_ = c.MarkFlagRequired("role") // cannot fail: the flag exists
	return c
}

func orNew(requestID string) string {
	if requestID == "" {
		return uuid.NewString()
	}
	return requestID
}

func (s *session) tokenList() *cobra.Command {
	var everybody, gone bool
	l := listing{none: "You have no token: dvt token create NAME --role ROLE creates one; --everybody also shows those of others."}
	c := &cobra.Command{
		Use: "list", Short: "List your tokens, newest first", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			live := !gone
			var all client.ListTokensTokensTokenConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListTokens(ctx, s.client, &everybody, &live, &first, after)
				if err != nil {
					return page{}, err
				}
				before := all.Edges
				all = out.Tokens
				return prepend(before, &all.Edges, all.PageInfo), nil
			}, func() *console.Table {
				t := s.table("TOKEN", "KIND", "NAME", "BEGINS WITH", "PRINCIPAL", "GRANTS", "EXPIRES", "USED", "REVOKED")
				for _, e := range all.Edges {
					k := e.Node
					var grants []string
					for _, g := range k.Grants {
						grants = append(grants, fmt.Sprintf("%s %s/%s", g.Role, g.ProjectId, g.EnvironmentId))
					}
					t.Row(k.TokenId, k.Kind, k.Name, runtext.Deref(k.Prefix), k.Principal, strings.Join(grants, ", "),
						s.when(&k.ExpiresAt), s.when(k.LastUsedAt), s.when(k.RevokedAt))
				}
				return t
			})
		},
	}
	c.Flags().BoolVar(&everybody, "everybody", false, "also tokens of others in the tenant")
	c.Flags().BoolVar(&gone, "all", false, "also those that were revoked or have expired")
	l.flag(c, 50)
	return c
}

func (s *session) tokenRevoke() *cobra.Command {
	var reason, requestID string
	c := &cobra.Command{
		Use: "revoke TOKEN", Short: "Revoke a token for good and end its streams", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.RevokeToken(c.Context(), s.client, client.RevokeTokenInput{RequestId: orNew(requestID),
				TokenId: args[0], Reason: reason})
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.RevokeToken.Token)
			}
			t := out.RevokeToken.Token
			_, err = fmt.Fprintf(s.out, "%s (%s of %s) is revoked\n", t.TokenId, t.Name, t.Principal)
			return err
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; kept in the audit")
	c.Flags().StringVar(&requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
	_ = c.MarkFlagRequired("reason") // cannot fail: the flag exists
	return c
}
