package graph

import (
	"github.com/dvt-engine/dvt/graph/internal/exec"
)

// root implements the resolvers of the fields that need I/O or a computation. gqlgen reads all other fields from
// structs.
type root struct {
	control       UseCases
	devPrincipals func() []DevPrincipal
}

type (
	queries          struct{ *root }
	mutations        struct{ *root }
	subscriptions    struct{ *root }
	runFields        struct{ *root }
	stepFields       struct{ *root }
	errorFields      struct{ *root }
	waitFields       struct{ *root }
	viewerFields     struct{ *root }
	bulkFields       struct{ *root }
	comparisonFields struct{ *root }
)

var _ exec.ResolverRoot = (*root)(nil)

func (r *root) Query() exec.QueryResolver                 { return queries{r} }
func (r *root) Mutation() exec.MutationResolver           { return mutations{r} }
func (r *root) Subscription() exec.SubscriptionResolver   { return subscriptions{r} }
func (r *root) Run() exec.RunResolver                     { return runFields{r} }
func (r *root) Step() exec.StepResolver                   { return stepFields{r} }
func (r *root) RunError() exec.RunErrorResolver           { return errorFields{r} }
func (r *root) Wait() exec.WaitResolver                   { return waitFields{r} }
func (r *root) Viewer() exec.ViewerResolver               { return viewerFields{r} }
func (r *root) Bulk() exec.BulkResolver                   { return bulkFields{r} }
func (r *root) RunComparison() exec.RunComparisonResolver { return comparisonFields{r} }
