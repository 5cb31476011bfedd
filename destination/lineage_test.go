package destination_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/dvt-engine/dvt/destination"
)

func TestParse_LineageNeedsADestinationOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ entry, wrong string }{
		{"kind: webhook, url: 'https://a', format: openlineage, route: {topics: [lineage], types: [LineageCOMPLETE]}", ""},
		{"kind: webhook, url: 'https://a', route: {topics: [lineage], tenants: [acme]}", ""},
		{"kind: file, url: 'file:///a', route: {topics: [lineage]}", ""},
		{"kind: webhook, url: 'https://a', format: openlineage", "format"},
		{"kind: webhook, url: 'https://a', format: other, route: {topics: [lineage]}", "format"},
		{"kind: file, url: 'file:///a', format: openlineage, route: {topics: [lineage]}", "format"},
		{"kind: syslog, url: 'tls://a', route: {topics: [lineage]}", "route.topics"},
		{"kind: webhook, url: 'https://a', route: {topics: [lineage, events]}", "route.topics"},
		{"kind: file, url: 'file:///a', route: {topics: [events]}", "route.topics"},
	} {
		_, err := destination.Parse([]byte("destinations: [{name: a, " + c.entry + "}]"))
		var wrong *destination.FileError
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s was refused: %v", c.entry, err)
		case c.wrong != "" && (!errors.As(err, &wrong) || !slices.ContainsFunc(wrong.Violations,
			func(v destination.Violation) bool { return v.Path == "destinations[0]."+c.wrong })):
			t.Errorf("%s gives %v, want a violation of %s", c.entry, err, c.wrong)
		}
	}
}

func TestSelects_LineageOnlyWhereARouteNamesIt(t *testing.T) {
	t.Parallel()
	m := destination.Message{Topic: destination.Lineage, TenantID: "acme", Type: "LineageSTART"}
	for _, c := range []struct {
		route destination.Route
		want  bool
	}{
		{destination.Route{}, false},
		{destination.Route{Tenants: []string{"acme"}}, false},
		{destination.Route{Topics: []destination.Topic{destination.Lineage}}, true},
		{destination.Route{Topics: []destination.Topic{destination.Lineage}, Tenants: []string{"globex"}}, false},
	} {
		d := destination.Config{Kind: destination.Webhook, Route: c.route}
		if got := d.Selects(m); got != c.want {
			t.Errorf("the route %+v selects lineage: %v, want %v", c.route, got, c.want)
		}
	}
}
