package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/authz"
)

// authzDecision decides for principals in turn, each by a grant of its own place, under rules that mostly name a place:
// half of the decisions are denials.
func authzDecision(context.Context, *rig.Rig) (*rig.Trial, error) {
	per := func(principals, rows int) (rig.Measure, error) {
		d, err := authz.NewDirectory(nil, time.Now)
		if err != nil {
			return nil, err
		}
		a, err := authz.New(authz.DefaultPolicy(), d)
		if err != nil {
			return nil, err
		}
		const places = 100
		doc := authz.Document{Rules: authz.DefaultPolicy()}
		actions := authz.Actions()
		for i := range rows - len(doc.Rules) {
			doc.Rules = append(doc.Rules, authz.Rule{
				Role: authz.Viewer, Action: actions[1+i/places%(len(actions)-1)], ProjectID: fmt.Sprintf("p%d", i%places),
				EnvironmentID: fmt.Sprintf("e%d", i/places),
			})
		}
		who := make([]authz.Principal, principals)
		for i := range who {
			who[i] = authz.Principal{ID: fmt.Sprintf("u%d", i), TenantID: "t"}
			doc.Grants = append(doc.Grants, authz.PrincipalGrant{
				Principal: who[i].ID, Role: authz.Roles()[i%4], ProjectID: fmt.Sprintf("p%d", i%places), EnvironmentID: "*",
			})
		}
		if err := a.Load(authz.Stored{
			Version: 1, Policies: []authz.StoredPolicy{{TenantID: "t", Version: 1, Document: &doc}}}); err != nil {
			return nil, err
		}
		at := make([]authz.Object, places)
		for i := range at {
			at[i] = authz.Object{TenantID: "t", ProjectID: fmt.Sprintf("p%d", i), EnvironmentID: "e0"}
		}
		return func(context.Context, int) (time.Duration, error) {
			const calls = 1000
			took, err := rig.Median(50, func(i int) error {
				a.Confirm()
				for k := range calls {
					n := (i*calls + k*7) % principals
					if _, err := a.Decide(who[n], authz.Pause, at[n%places]); err != nil {
						return err
					}
				}
				return nil
			})
			return took / calls, err
		}, nil
	}
	many, err := per(100_000, 10_000)
	if err != nil {
		return nil, err
	}
	few, err := per(10_000, 1000)
	return &rig.Trial{Repeat: rig.ByTurns(1, many, few)}, err
}
