package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/authz"
)

// authzDecision measures decisions for many principals in turn. Each principal has a grant in one project, and most
// rules name a project and an environment. Half of the decisions are denials.
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
		const projects = 100
		doc := authz.Document{Rules: authz.DefaultPolicy()}
		actions := authz.Actions()
		for i := range rows - len(doc.Rules) {
			doc.Rules = append(doc.Rules, authz.Rule{
				Role: authz.Viewer, Action: actions[1+i/projects%(len(actions)-1)], ProjectID: fmt.Sprintf("p%d", i%projects),
				EnvironmentID: fmt.Sprintf("e%d", i/projects),
			})
		}
		who := make([]authz.Principal, principals)
		for i := range who {
			who[i] = authz.Principal{ID: fmt.Sprintf("u%d", i), TenantID: "t"}
			doc.Grants = append(doc.Grants, authz.PrincipalGrant{
				Principal: who[i].ID, Role: authz.Roles()[i%4], ProjectID: fmt.Sprintf("p%d", i%projects), EnvironmentID: "*",
			})
		}
		if err := a.Load(authz.Stored{
			Version: 1, Policies: []authz.StoredPolicy{{TenantID: "t", Version: 1, Document: &doc}}}); err != nil {
			return nil, err
		}
		at := make([]authz.Object, projects)
		for i := range at {
			at[i] = authz.Object{TenantID: "t", ProjectID: fmt.Sprintf("p%d", i), EnvironmentID: "e0"}
		}
		return func(context.Context, int) (time.Duration, error) {
			const calls = 1000
			took, err := rig.Median(50, func(i int) error {
				a.Confirm()
				for k := range calls {
					n := (i*calls + k*7) % principals
					if _, err := a.Decide(who[n], authz.Pause, at[n%projects]); err != nil {
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
	return &rig.Trial{Repeat: rig.Alternate(1, many, few)}, err
}
