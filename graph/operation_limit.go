package graph

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/mapping"
	"github.com/dvt-engine/dvt/graph/internal/selection"
	"github.com/dvt-engine/dvt/graph/limit"
	"github.com/dvt-engine/dvt/run"
)

// operationLimit limits the queries and mutations of one caller on this server, both concurrently and per minute.
// Package ws limits subscriptions. It is safe for concurrent use.
type operationLimit struct {
	most int
	rate *limit.RequestRate

	mu      sync.Mutex
	running map[string]int // number by caller; callers without operations have no entry
}

var (
	_ graphql.HandlerExtension     = (*operationLimit)(nil)
	_ graphql.OperationInterceptor = (*operationLimit)(nil)
)

func newOperationLimit(most, perMinute int) *operationLimit {
	return &operationLimit{most: most, rate: limit.NewRequestRate(perMinute, "your account"), running: map[string]int{}}
}

func (*operationLimit) ExtensionName() string                   { return "OperationLimit" }
func (*operationLimit) Validate(graphql.ExecutableSchema) error { return nil }

// enter counts an operation of a caller until leave is called, which must happen exactly once. Its error is
// TOO_MANY_OPERATIONS or REQUEST_RATE_LIMITED when a limit is reached.
func (l *operationLimit) enter(caller string) (leave func(), err error) {
	if err := l.rate.Take(caller); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[caller] >= l.most {
		return nil, &control.Error{
			Code: run.CodeTooManyOperations, Limit: int64(l.most), RetryAfter: time.Second,
			Message: fmt.Sprintf(
				"You have %d operations running on this server, the maximum. Wait for one to end.",
				l.most),
		}
	}
	l.running[caller]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running[caller]--; l.running[caller] == 0 {
			delete(l.running, caller)
		}
	}, nil
}

// countedKey marks the context of an operation that its transport has already counted, because the transport keeps the
// slot until the answer is written.
type countedKey struct{}

func (l *operationLimit) InterceptOperation(ctx context.Context,
	next graphql.OperationHandler) graphql.ResponseHandler {
	if ctx.Value(countedKey{}) != nil || graphql.GetOperationContext(ctx).Operation.Operation == ast.Subscription {
		return next(ctx)
	}
	leave, err := l.enter(peerKey(principal(ctx)))
	if err != nil {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{gqlerror.WrapPath(nil, err)}})
	}
	answer := next(ctx)
	var once sync.Once
	return func(ctx context.Context) *graphql.Response {
		defer once.Do(leave)
		return answer(ctx)
	}
}

// standbyGuard refuses mutations before anything of them runs.
type standbyGuard struct{}

var (
	_ graphql.HandlerExtension     = standbyGuard{}
	_ graphql.OperationInterceptor = standbyGuard{}
)

func (standbyGuard) ExtensionName() string                   { return "StandbyGuard" }
func (standbyGuard) Validate(graphql.ExecutableSchema) error { return nil }

func (standbyGuard) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	if graphql.GetOperationContext(ctx).Operation.Operation != ast.Mutation {
		return next(ctx)
	}
	err := control.Later(refuse(run.CodeStandby, control.StandbyMessage), standbyRetry)
	return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{gqlerror.WrapPath(nil, err)}})
}

// standbyRetry is the pause that a standby asks of callers, whose proxy may lead to the primary then.
const standbyRetry = 2 * time.Second

func costlyPartsOf(p *selection.Plan) mapping.CostlyParts {
	return mapping.CostlyParts{
		Artifacts: p.Selects("Run.artifacts"), Attempts: p.Selects("Step.attempts"),
		Wait: p.Selects("Step.wait"), NotBefore: p.Selects("Step.notBefore"),
		Blocked: p.Selects("RunError.blockedSteps") || p.Selects("RunError.heldSteps"),
	}
}

type costlyPartsKey struct{}

// costlyPartsFromContext returns the costly parts that the operation of ctx selects. Only compiled operations know
// them; for others it returns everything.
func costlyPartsFromContext(ctx context.Context) mapping.CostlyParts {
	if w, ok := ctx.Value(costlyPartsKey{}).(mapping.CostlyParts); ok {
		return w
	}
	return mapping.AllCostlyParts()
}
