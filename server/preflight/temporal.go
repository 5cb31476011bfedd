package preflight

import (
	"context"
	"fmt"
	"strings"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/server/connect"
)

func (t *target) temporal(ctx context.Context, l *list) {
	if t.Temporal == "" {
		return // a finding of the settings
	}
	to, err := connect.Temporal(t.Config, t.log, t.Process == DataWorker)
	if err != nil {
		l.missing("files", err.Error(), "the process cannot connect without them", "correct the file that the finding names")
		return
	}
	for i, name := range t.Strategy().All() {
		to.Namespace = name
		f, drift, err := to.Drift(ctx, connect.Wanted(t.Config, to, name))
		if err != nil {
			l.missing("reachable", "the connection failed: "+err.Error(), "no run starts or continues without Temporal",
				"check temporal, temporal-tls and its files; try `temporal operator cluster health --address "+
					t.Temporal+"`")
			return
		}
		of := "" // names the namespace in findings about others than the default one
		if i == 0 {
			t.server(l, to, f, drift)
		} else {
			of = " of " + name
		}
		t.namespace(l, to, f, drift, of)
	}
}

// server adds the findings about the connection. f is empty when the namespace does not exist.
func (t *target) server(l *list, to temporal.Connection, f temporal.Facts, drift []temporal.Drift) {
	if len(drift) > 0 && drift[0].Kind == temporal.DriftNamespace {
		return
	}
	version := f.ServerVersion
	if version == "" {
		version = "of an unknown version"
	}
	l.ok("reachable", "Temporal %s answers", version)
	if to.TLS == nil {
		l.note("TLS", "the connection is in plain text", "others on the way could read and change what runs do",
			"set temporal-tls: on unless the server is on this machine")
	} else {
		l.ok("TLS", "the connection is encrypted")
	}
	if to.Payloads == nil {
		l.note("payload keys", "payloads are stored in clear", "Temporal then shows names of steps, results and errors",
			"set payload-keys-file and dispatch-keys-file; see \"Payload keys\" in docs/operations.md")
	}
}

// mend is the remedy for what `dvt temporal setup` changes.
func mend(command string) string { return "dvt temporal setup, or " + command }

// namespace adds the findings about a namespace: its drift, and what is right.
func (t *target) namespace(l *list, to temporal.Connection, f temporal.Facts, drift []temporal.Drift, of string) {
	const why = "runs are found by them, and started without them only with a warning"
	found := map[temporal.DriftKind]bool{}
	var missing []string
	for _, d := range drift {
		found[d.Kind] = true
		switch d.Kind {
		case temporal.DriftNamespace:
			l.missing("namespace"+of, d.Found, "runs are started in it", mend(d.Remedy))
			return
		case temporal.DriftRetention:
			add := l.note
			if d.Blocks {
				add = l.missing
			}
			add("retention"+of, d.Found, "dvt store repair reads their histories after a restore of the store",
				mend(d.Remedy))
		case temporal.DriftAttribute:
			missing = append(missing, d.Name)
		case temporal.DriftType:
			l.missing("search attribute "+d.Name+of, d.Found, why, d.Remedy)
		case temporal.DriftArchival:
			l.note("archival"+of, d.Found, "what a tenant or a person has erased stays there", d.Remedy)
		case temporal.DriftUnknown:
			l.note("search attributes"+of, d.Found, why, d.Remedy)
		}
	}
	l.ok("namespace"+of, "the namespace %s exists", to.Namespace)
	if !found[temporal.DriftRetention] {
		l.ok("retention"+of, "closed executions are kept for %s", plan.DurationWords(f.Retention))
	}
	switch {
	case len(missing) > 0:
		l.missing("search attributes"+of, "missing: "+strings.Join(missing, ", "), why, mend(
			fmt.Sprintf("for a in %s; do temporal operator search-attribute create --namespace %s --name $a --type %s; done",
				strings.Join(missing, " "), to.Namespace, temporal.AttributeType)))
	case !found[temporal.DriftType] && !found[temporal.DriftUnknown]:
		l.ok("search attributes"+of, "%s", strings.Join(connect.Wanted(t.Config, to, to.Namespace).Attributes, ", "))
	}
}
