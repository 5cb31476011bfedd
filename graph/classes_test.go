package graph_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/run/runtest"
)

// The test generates roles and selections. A member of a group must get the same bytes as from an unshared execution at
// the same position. A member whose rights were lost or changed must get an error before another payload. A viewer
// without the right must get the same error from both.
func TestShare_AGroupShowsTheSameAsAnUnsharedExecution(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	projects, environments := []string{"shop", "lab", "attic"}, []string{"dev", "prod"}
	for i := range 12 {
		tenant := "acme"
		if i%4 == 3 {
			tenant = "globex"
		}
		w.add(runIdentity(fmt.Sprintf("r%d", i), tenant, projects[i%3], environments[i/3%2]), runtest.RandomLog(uint64(i)))
	}
	rapid.Check(t, func(rt *rapid.T) { w.checkClasses(rt, projects, environments) })
}

func (w *world) checkClasses(t *rapid.T, projects, environments []string) {
	d := newDraws(t, notInStreams("RunUpdate.asOf", "RunUpdate.lagMs", "RunListUpdate.asOf")...)
	for _, id := range accounts {
		w.directory.SetGrants(tenantOf(id), id, d.grants(projects, environments))
	}
	w.swap(d.rules())
	var query string
	if d.yes(2) {
		d.without["Run.steps"], d.without["Run.step"] = true, true
		query = `runListUpdates(first: 5` + pick(d, "", `, filter: {projectId: "shop"}`,
			`, filter: {environmentId: "dev"}`) +
			`) {` + conditioned + d.selection("RunListUpdate", 4)[1:]
	} else {
		query = fmt.Sprintf(`runUpdates(runId: "r%d", mode: %s%s) {`, d.n(13), pick(d, "SNAPSHOT", "DELTA"),
			pick(d, "", ", after: 0", ", after: 3")) +
			conditioned + d.selection("RunUpdate", 4)[1:]
	}
	query = d.document(`subscription S(` + conditions + `) { ` + query + ` }`)

	type member struct {
		id     string
		shared *ws.Shared
	}
	groups := map[string]ws.Source{}
	var members []member
	for _, id := range accounts {
		shared, err := w.shared(t, id, query)
		if own := w.alone(t, id, query); err != nil {
			w.compareErrors(t, err, own)
			continue
		}
		members = append(members, member{id, shared})
		if groups[shared.Key] == nil {
			if groups[shared.Key], err = shared.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer groups[shared.Key].Close()
		}
		p, err := groups[shared.Key].First(shared.Since, false)
		if errors.Is(err, ws.ErrAlone) {
			continue // the viewer gets an unshared execution
		}
		own := w.alone(t, id, query)
		if err != nil || string(p.Data) != string(ws.AppendResponse(nil, own)) {
			t.Fatalf("the group shows %s %s, %v\nwant as unshared %s\nby %s", id, p.Data, err,
				ws.AppendResponse(nil, own), query)
		}
	}

	for _, id := range accounts { // change rights while viewers watch
		if d.yes(2) {
			w.directory.SetGrants(tenantOf(id), id, d.grants(projects, environments))
		}
	}
	w.swap(d.rules())
	for _, m := range members {
		err := m.shared.Ticket.Check()
		again, refused := w.shared(t, m.id, query)
		switch {
		case errors.Is(err, ws.ErrMoved):
			if refused != nil || again.Key == m.shared.Key {
				t.Fatalf("%s got ErrMoved, want a new key of a group; error %v", m.id, refused)
			}
		case err != nil:
			w.compareErrors(t, err, w.alone(t, m.id, query))
		case refused != nil || again.Key != m.shared.Key:
			t.Fatalf("%s may stay in a group that it may not join; error %v", m.id, refused)
		}
	}
}

func (d *draws) grants(projects, environments []string) []authz.Grant {
	var out []authz.Grant
	for range d.n(3) {
		out = append(out, authz.Grant{
			Role:      pick(d, authz.Roles()...),
			ProjectID: pick(d, append([]string{"*"}, projects...)...), EnvironmentID: pick(d,
				append([]string{"*"}, environments...)...),
		})
	}
	return out
}

// rules generates a policy in which some roles may not read.
func (d *draws) rules() []authz.Rule {
	var out []authz.Rule
	for _, r := range authz.DefaultPolicy() {
		if r.Action != authz.Read || !d.yes(4) {
			out = append(out, r)
		}
	}
	return out
}

func (w *world) shared(t *rapid.T, id, query string) (*ws.Shared, error) {
	_, op := parse(t, w.Handler, query, true)
	return w.Share(graph.WithPrincipal(t.Context(), w.who(id)), op)
}

// alone returns the first response of an unshared execution.
func (w *world) alone(t *rapid.T, id, query string) *graphql.Response {
	_, op := parse(t, w.Handler, query, true)
	return w.Alone(graph.WithPrincipal(t.Context(), w.who(id)), op)
}

// compareErrors compares the code of an error with that of an unshared execution.
func (w *world) compareErrors(t *rapid.T, err error, own *graphql.Response) {
	var e *control.Error
	if !errors.As(err, &e) || len(own.Errors) == 0 || own.Errors[0].Extensions["code"] != string(e.Code) &&
		e.Code != "FORBIDDEN" {
		t.Fatalf("the shared execution failed with %v, the unshared one with %v, want the same code", err, own)
	}
}
