package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/authz"
)

func authzDecision(context.Context, *rig) (*trial, error) {
	per := func(n int) (measure, error) {
		accounts := make([]authz.Account, n)
		for i := range accounts {
			accounts[i] = authz.Account{
				ID: fmt.Sprintf("p%d", i), TenantID: "t", TokenSHA256: fmt.Sprintf("%064x", i+1),
				Grants: []authz.Grant{{Role: authz.Operator, ProjectID: "*", EnvironmentID: "*"}},
			}
		}
		d, err := authz.NewDirectory(accounts, time.Now)
		if err != nil {
			return nil, err
		}
		a, err := authz.New(authz.DefaultPolicy(), d)
		if err != nil {
			return nil, err
		}
		o := authz.Object{TenantID: "t", ProjectID: "p", EnvironmentID: "e"}
		return func(context.Context, int) (time.Duration, error) {
			const calls = 1000
			took, err := median(50, func(i int) error {
				for k := range calls {
					if _, err := a.Decide(authz.Principal{ID: accounts[(i+k)%n].ID, TenantID: "t"}, authz.Pause, o); err != nil {
						return err
					}
				}
				return nil
			})
			return took / calls, err
		}, nil
	}
	many, err := per(10000)
	if err != nil {
		return nil, err
	}
	few, err := per(10)
	return &trial{repeat: byTurns(1, many, few)}, err
}
