package graph

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/graph/internal/selection"
	"github.com/dvt-engine/dvt/graph/ws"
)

// sharer decides which subscriptions may share one execution. A payload may be shared when it depends on no property
// of the viewer except its rights. It is safe for concurrent use.
type sharer struct {
	control  FrameSharer
	exec     graphql.GraphExecutor
	compiler *selection.Compiler
}

// share implements ws.Share for runUpdates and runListUpdates. A subscription with wrong arguments is not shared, so
// that its own execution reports the error.
func (s sharer) share(ctx context.Context, op *graphql.OperationContext) (*ws.Shared, error) {
	if op.Operation.Operation != ast.Subscription {
		return nil, nil //nolint:nilnil // not shared
	}
	fields := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})
	if len(fields) != 1 || fields[0].Name != "runUpdates" && fields[0].Name != "runListUpdates" {
		return nil, nil //nolint:nilnil // not shared
	}
	in := subscriptionArgs{}
	s.exec.DispatchOperation(context.WithValue(ctx, subscriptionArgsKey{}, &in), op)
	switch {
	case in.run != nil:
		return s.runUpdates(ctx, op, fields[0], *in.run, in.mode)
	case in.runs != nil:
		return s.runListUpdates(ctx, op, fields[0], *in.runs)
	}
	return nil, nil //nolint:nilnil // not shared
}

// subscriptionArgs receives the arguments of a subscription. gqlgen parses them only on the way to the resolver, so
// share executes the operation with a subscriptionArgs in its context, and the resolver fills it in and opens no
// stream.
type subscriptionArgs struct {
	run  *watch.WatchRun
	mode model.UpdateMode
	runs *control.RunsQuery
}

type subscriptionArgsKey struct{}

// argsOnly returns the subscriptionArgs of ctx with a closed channel for the resolver to return, or nil when the
// resolver must open its stream.
func argsOnly[M any](ctx context.Context) (*subscriptionArgs, <-chan M) {
	in, _ := ctx.Value(subscriptionArgsKey{}).(*subscriptionArgs)
	if in == nil {
		return nil, nil
	}
	over := make(chan M)
	close(over)
	return in, over
}

func (s sharer) runUpdates(
	ctx context.Context, op *graphql.OperationContext, field graphql.CollectedField, in watch.WatchRun,
	mode model.UpdateMode,
) (*ws.Shared, error) {
	t, err := s.control.AdmitRun(ctx, principal(ctx), in.RunID)
	if err != nil {
		return nil, err
	}
	shared := &ws.Shared{
		Key: groupKey(op, field, t.Class(), in.RunID, string(mode)), Ticket: ticket{t},
		Open: func(ctx context.Context) (ws.Source, error) {
			frames, err := s.control.OpenRun(ctx, t)
			d, w := newRenderer[model.RunUpdate](ctx, s, op, field)
			return openGroup(ctx, frames, err, &runPosition{mode: mode, costlyParts: w}, d)
		},
	}
	if in.After != nil {
		shared.Since = &ws.Position{Epoch: in.Epoch, Seq: int64(*in.After)}
	}
	return shared, nil
}

func (s sharer) runListUpdates(
	ctx context.Context, op *graphql.OperationContext, field graphql.CollectedField, in control.RunsQuery,
) (*ws.Shared, error) {
	t, err := s.control.AdmitRuns(ctx, principal(ctx), in)
	if err != nil {
		return nil, err
	}
	return &ws.Shared{
		Key: groupKey(op, field, t.Class()), Ticket: ticket{t},
		Open: func(ctx context.Context) (ws.Source, error) {
			frames, err := s.control.OpenRuns(ctx, t)
			d, w := newRenderer[model.RunListUpdate](ctx, s, op, field)
			return openGroup(ctx, frames, err, &listPosition{costlyParts: w}, d)
		},
	}, nil
}

// groupKey returns a key that is equal for viewers who get the same bytes. It covers the document, its variables except
// the position to resume from, and the class of the viewer's rights.
func groupKey(op *graphql.OperationContext, field graphql.CollectedField, class authz.Class, more ...string) string {
	used := map[string]any{}
	variablesOf(op.Operation.SelectionSet, field.Name, func(name string) { used[name] = op.Variables[name] })
	key, err := json.Marshal([]any{op.RawQuery, op.OperationName, used, class, more})
	if err != nil {
		panic(err) // cannot happen: variables were decoded from JSON
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

// variablesOf yields the names of the variables that a selection uses, except in the arguments of the field root that
// name the position to resume from.
func variablesOf(set ast.SelectionSet, root string, yield func(name string)) {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			for _, a := range s.Arguments {
				if s.Name != root || a.Name != "after" && a.Name != "storeEpoch" {
					variablesIn(a.Value, yield)
				}
			}
			variablesOfDirectives(s.Directives, yield)
			variablesOf(s.SelectionSet, "", yield)
		case *ast.InlineFragment:
			variablesOfDirectives(s.Directives, yield)
			variablesOf(s.SelectionSet, root, yield)
		case *ast.FragmentSpread:
			variablesOfDirectives(s.Directives, yield)
			variablesOf(s.Definition.SelectionSet, root, yield)
		}
	}
}

func variablesOfDirectives(ds ast.DirectiveList, yield func(name string)) {
	for _, d := range ds {
		for _, a := range d.Arguments {
			variablesIn(a.Value, yield)
		}
	}
}

func variablesIn(v *ast.Value, yield func(name string)) {
	if v.Kind == ast.Variable {
		yield(v.Raw)
	}
	for _, child := range v.Children {
		variablesIn(child.Value, yield)
	}
}

// ticket translates watch.ErrMoved into the error that the transport handles.
type ticket struct{ *watch.Ticket }

func (t ticket) Check() error {
	err := t.Ticket.Check()
	if errors.Is(err, watch.ErrMoved) {
		return ws.ErrMoved
	}
	return err
}

// ShareLinks makes links that show the status of a run without sign-in, and permits them.
type ShareLinks interface {
	SetShareLinks(ctx context.Context, p authz.Principal, in admission.SetShareLinks) (admission.ModeChange, error)
	ShareRun(ctx context.Context, p authz.Principal, runID, requestID string) (runs.ShareLink, error)
}

func (m mutations) SetShareLinks(ctx context.Context, in model.SetShareLinksInput) (*model.ServicePayload, error) {
	s, err := m.control.SetShareLinks(ctx, principal(ctx), admission.SetShareLinks{
		RequestID: in.RequestID, Hours: in.Hours, Reason: in.Reason,
	})
	return servicePayload(s, err)
}

// SharePath is the path of share links; the token follows.
const SharePath = "/s/"

func (m mutations) ShareRun(ctx context.Context, in model.ShareRunInput) (*model.ShareRunPayload, error) {
	link, err := m.control.ShareRun(ctx, principal(ctx), in.RunID, in.RequestID)
	if err != nil {
		return nil, err
	}
	return &model.ShareRunPayload{Path: SharePath + link.Token, ExpiresAt: link.ExpiresAt}, nil
}
