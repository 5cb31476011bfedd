package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dvt-engine/dvt/plan"
)

// Wanted is how a namespace should be.
type Wanted struct {
	// Retention is the time for which closed executions are kept; 0 accepts every time from Shortest on.
	Retention time.Duration
	// Shortest is the shortest retention with which dvt works.
	Shortest   time.Duration
	Attributes []string // search attributes of the type AttributeType
	// Archival accepts that the namespace archives histories.
	Archival bool
}

// DriftKind is what differs in a namespace.
type DriftKind string

// The kinds of drift.
const (
	DriftNamespace DriftKind = "namespace" // it does not exist
	DriftRetention DriftKind = "retention"
	DriftAttribute DriftKind = "attribute" // it is missing
	DriftType      DriftKind = "type"      // a search attribute has another type
	DriftArchival  DriftKind = "archival"  // histories go to an archive that erasures do not reach
	DriftUnknown   DriftKind = "unknown"   // the server does not say
)

// DriftKinds lists every kind.
func DriftKinds() []DriftKind {
	return []DriftKind{DriftNamespace, DriftRetention, DriftAttribute, DriftType, DriftArchival, DriftUnknown}
}

// Drift is one difference between a namespace and the settings.
type Drift struct {
	Namespace string    `json:"namespace"`
	Kind      DriftKind `json:"kind"`
	Name      string    `json:"name,omitempty"` // of the search attribute
	Found     string    `json:"found"`          // a sentence without its end
	Remedy    string    `json:"remedy"`         // the command of Temporal that mends it
	// Blocks says that dvt does not do what it promises until it is mended.
	Blocks bool `json:"blocks"`
}

// newRetention is the retention of a namespace that Setup creates when the settings want none.
const newRetention = 30 * 24 * time.Hour

// days is a retention as commands of Temporal take it.
func days(d time.Duration) string { return strconv.Itoa(int(d.Hours()/24)) + "d" }

// create returns the retention with which Setup creates the namespace.
func (w Wanted) create() time.Duration {
	if w.Retention > 0 {
		return w.Retention
	}
	return max(newRetention, w.Shortest)
}

// Compare returns the differences between the facts of a namespace and what is wanted, in the order of DriftKinds, the
// attributes in the order of w. It is pure.
func (f Facts) Compare(namespace string, w Wanted) (out []Drift) {
	add := func(kind DriftKind, name string, blocks bool, found, remedy string) {
		out = append(out, Drift{Namespace: namespace, Kind: kind, Name: name, Found: found, Remedy: remedy, Blocks: blocks})
	}
	is := "closed executions are kept for " + plan.DurationWords(f.Retention)
	update := "temporal operator namespace update --namespace " + namespace + " --retention "
	switch {
	case f.Retention < w.Shortest:
		add(DriftRetention, "", true, is, update+days(w.create()))
	case w.Retention > 0 && f.Retention != w.Retention:
		add(DriftRetention, "", f.Retention < w.Retention, is+", and the settings want "+plan.DurationWords(w.Retention),
			update+days(w.Retention))
	}
	var missing, wrong []Drift
	for _, name := range w.Attributes {
		switch kind := f.Attributes[name]; {
		case f.AttributesErr != nil || kind == AttributeType:
		case kind == "":
			missing = append(missing, Drift{Namespace: namespace, Kind: DriftAttribute, Name: name, Blocks: true,
				Found: "the search attribute " + name + " is missing",
				Remedy: fmt.Sprintf("temporal operator search-attribute create --namespace %s --name %s --type %s", namespace,
					name, AttributeType)})
		default:
			wrong = append(wrong, Drift{Namespace: namespace, Kind: DriftType, Name: name, Blocks: true,
				Found: "the type of the search attribute " + name + " is " + kind + ", not " + AttributeType,
				Remedy: fmt.Sprintf("temporal operator search-attribute remove --namespace %s --name %s, then create it with "+
					"--type %s", namespace, name, AttributeType)})
		}
	}
	out = append(append(out, missing...), wrong...)
	if f.Archival && !w.Archival {
		add(DriftArchival, "", false, "histories are archived, where erasures of dvt do not reach them",
			"temporal operator namespace update --namespace "+namespace+" --history-archival-state disabled, or set "+
				"archival: true in temporal-namespaces")
	}
	if f.AttributesErr != nil {
		add(DriftUnknown, "", false, "the server does not list the search attributes: "+f.AttributesErr.Error(),
			"temporal operator search-attribute list --namespace "+namespace)
	}
	return out
}

// Drift is Compare of what the server says now. A namespace that does not exist is a Drift. Errors:
// engine.ErrUnavailable and those of Inspect.
func (to Connection) Drift(ctx context.Context, w Wanted) (Facts, []Drift, error) {
	f, err := to.Inspect(ctx)
	if errors.Is(err, ErrNoNamespace) {
		return f, []Drift{{Namespace: to.Namespace, Kind: DriftNamespace, Blocks: true,
			Found: "the server does not know the namespace " + to.Namespace,
			Remedy: "temporal operator namespace create --namespace " + to.Namespace + " --retention " +
				days(w.create())}}, nil
	}
	if err != nil {
		return f, nil, err
	}
	return f, f.Compare(to.Namespace, w), nil
}

// Setup is what Connection.Setup did, or would do.
type Setup struct {
	Changes []string `json:"changes"` // sentences without their end
	// Left are differences that Setup does not change, because that loses data: somebody mends them by hand.
	Left []Drift `json:"left"`
}

// setupWait bounds the time until every part of the server knows a new namespace or attribute.
const setupWait = time.Minute

// Setup creates the namespace or brings it to what is wanted. With dry it changes nothing and returns what it would do.
// It may be repeated: a namespace without drift is not touched. It never shortens a retention below w.Shortest, and
// removes nothing. Errors: *RightError when the account may not make the change, engine.ErrUnavailable.
func (to Connection) Setup(ctx context.Context, w Wanted, dry bool) (out Setup, err error) {
	out = Setup{Changes: []string{}, Left: []Drift{}}
	_, drift, err := to.Drift(ctx, w)
	if err != nil {
		return out, err
	}
	c, err := client.DialContext(ctx, to.options(slog.New(slog.DiscardHandler)))
	if err != nil {
		return out, fmt.Errorf("temporal: setup: %w", err)
	}
	defer c.Close()
	var attributes []string
	for _, d := range drift {
		switch d.Kind {
		case DriftNamespace:
			out.Changes = append(out.Changes, "create the namespace "+to.Namespace+", which keeps closed executions for "+
				plan.DurationWords(w.create()))
			attributes = w.Attributes
			if !dry {
				_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
					Namespace: to.Namespace, WorkflowExecutionRetentionPeriod: durationpb.New(w.create()),
					Description: "workflows of dvt"})
				if errors.As(err, new(*serviceerror.NamespaceAlreadyExists)) {
					err = nil // another setup runs
				}
			}
		case DriftRetention:
			out.Changes = append(out.Changes, "keep closed executions of "+to.Namespace+" for "+
				plan.DurationWords(w.create()))
			if !dry {
				_, err = c.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
					Namespace: to.Namespace,
					Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(w.create())}})
			}
		case DriftAttribute:
			attributes = append(attributes, d.Name)
		default:
			out.Left = append(out.Left, d)
		}
		if err != nil {
			return out, rightError(err, d)
		}
	}
	if len(attributes) == 0 {
		return out, nil
	}
	out.Changes = append(out.Changes, "add the search attributes "+strings.Join(attributes, ", ")+" to "+to.Namespace)
	if dry {
		return out, nil
	}
	return out, to.addAttributes(ctx, c, attributes, w)
}

// addAttributes adds search attributes, and returns when the server lists them. A new namespace is unknown to parts of
// the server for a while.
func (to Connection) addAttributes(ctx context.Context, c client.Client, names []string, w Wanted) error {
	add := map[string]enumspb.IndexedValueType{}
	for _, name := range names {
		add[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	ctx, cancel := context.WithTimeout(ctx, setupWait)
	defer cancel()
	for {
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: to.Namespace, SearchAttributes: add})
		var early *serviceerror.NamespaceNotFound
		var repeated *serviceerror.AlreadyExists
		if err != nil && !errors.As(err, &early) && !errors.As(err, &repeated) && ctx.Err() == nil {
			return rightError(err, Drift{Namespace: to.Namespace, Kind: DriftAttribute,
				Remedy: fmt.Sprintf("for a in %s; do temporal operator search-attribute create --namespace %s --name $a --type "+
					"%s; done", strings.Join(names, " "), to.Namespace, AttributeType)})
		}
		if err == nil || repeated != nil {
			_, drift, err := to.Drift(ctx, w)
			if err == nil && !slices.ContainsFunc(drift, func(d Drift) bool {
				return d.Kind == DriftNamespace || d.Kind == DriftAttribute
			}) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not list the search attributes of %s after %s: run the command again",
				to.Namespace, plan.DurationWords(setupWait))
		case <-time.After(time.Second):
		}
	}
}

// RightError is returned by Setup when the server refuses a change to this account.
type RightError struct {
	Drift Drift // what was to be changed
	Err   error
}

func (e *RightError) Error() string {
	right := map[DriftKind]string{DriftNamespace: "create namespaces (RegisterNamespace, of a cluster administrator)",
		DriftRetention: "change the namespace (UpdateNamespace, of an administrator of the namespace)",
		DriftAttribute: "add search attributes (AddSearchAttributes, of an administrator of the namespace)"}[e.Drift.Kind]
	return fmt.Sprintf("%s: the account of these settings may not %s: %v; use one that may, or let an operator of Temporal "+
		"run `%s`", e.Drift.Namespace, right, e.Err, e.Drift.Remedy)
}

// Unwrap returns the error of the server.
func (e *RightError) Unwrap() error { return e.Err }

// rightError names the right that is missing, when err is a refusal.
func rightError(err error, d Drift) error {
	var denied *serviceerror.PermissionDenied
	var without *serviceerror.Unimplemented // Temporal Cloud has an interface of its own for it
	if errors.As(err, &denied) || errors.As(err, &without) {
		return &RightError{Drift: d, Err: err}
	}
	return fmt.Errorf("temporal: setup of %s: %w", d.Namespace, err)
}
