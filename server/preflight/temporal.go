package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/server/connect"
)

// shortestRetention is the shortest time for which a namespace must keep closed executions: `dvt store repair` reads
// their histories after a restore, and captured histories reach back three days.
const shortestRetention = 3 * 24 * time.Hour

func (t *target) temporal(ctx context.Context, l *list) {
	if t.Temporal == "" {
		return // a finding of the settings
	}
	to, err := connect.Temporal(t.Config, t.log, t.Process == DataWorker)
	if err != nil {
		l.missing("files", err.Error(), "the process cannot connect without them", "correct the file that the finding names")
		return
	}
	f, err := to.Inspect(ctx)
	switch {
	case errors.Is(err, temporal.ErrNoNamespace):
		l.missing("namespace", "the server does not know the namespace "+to.Namespace, "runs are started in it",
			"temporal operator namespace create --namespace "+to.Namespace+" --retention 30d")
		return
	case err != nil:
		l.missing("reachable", "the connection failed: "+err.Error(), "no run starts or continues without Temporal",
			"check temporal, temporal-tls and its files; try `temporal operator cluster health --address "+
				t.Temporal+"`")
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
	l.ok("namespace", "the namespace %s exists", to.Namespace)
	t.retention(l, to, f)
	t.attributes(l, to, f)
	if to.Payloads == nil {
		l.note("payload keys", "payloads are stored in clear", "Temporal then shows names of steps, results and errors",
			"set payload-keys-file and dispatch-keys-file; see \"Payload keys\" in docs/operations.md")
	}
}

func (t *target) retention(l *list, to temporal.Connection, f temporal.Facts) {
	days := "closed executions are kept for " + plan.DurationWords(f.Retention)
	if f.Retention < shortestRetention {
		l.missing("retention", days, "dvt store repair reads their histories after a restore of the store",
			"temporal operator namespace update --namespace "+to.Namespace+" --retention 30d")
		return
	}
	l.ok("retention", "%s", days)
}

func (t *target) attributes(l *list, to temporal.Connection, f temporal.Facts) {
	const why = "runs are found by them, and started without them only with a warning"
	if f.AttributesErr != nil {
		l.note("search attributes", "the server does not list them: "+f.AttributesErr.Error(), why,
			"temporal operator search-attribute list --namespace "+to.Namespace)
		return
	}
	var missing []string
	for _, name := range to.RequiredAttributes() {
		switch kind := f.Attributes[name]; kind {
		case temporal.AttributeType:
		case "":
			missing = append(missing, name)
		default:
			l.missing("search attribute "+name, "its type is "+kind+", not "+temporal.AttributeType, why,
				fmt.Sprintf("temporal operator search-attribute remove --namespace %s --name %s, then create it with --type %s",
					to.Namespace, name, temporal.AttributeType))
		}
	}
	if len(missing) == 0 {
		l.ok("search attributes", "%s", strings.Join(to.RequiredAttributes(), ", "))
		return
	}
	l.missing("search attributes", "missing: "+strings.Join(missing, ", "), why,
		fmt.Sprintf("for a in %s; do temporal operator search-attribute create --namespace %s --name $a --type %s; done",
			strings.Join(missing, " "), to.Namespace, temporal.AttributeType))
}
