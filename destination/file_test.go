package destination_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/destination"
)

func TestParse_ReadsEveryField(t *testing.T) {
	t.Parallel()
	got, err := destination.Parse([]byte(`
destinations:
  - name: ops
    kind: webhook
    url: https://hooks.example/dvt
    secrets: [{file: /run/secrets/new}, {env: OLD_KEY}]
    timeout: 5s
    allowPrivate: true
    route: {topics: [alerts], tenants: [acme], levels: [HIGH], codes: [TIMEOUT], types: [AlertOpened],
      installation: true}
  - {name: mail, kind: email, url: "smtps://mail.example", from: dvt@example.com, to: [ops@example.com], user: dvt}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []destination.Config{
		{Name: "ops", Kind: destination.Webhook, URL: "https://hooks.example/dvt", Timeout: 5 * time.Second,
			AllowPrivate: true, Secrets: []destination.SecretRef{{File: "/run/secrets/new"}, {Env: "OLD_KEY"}},
			Route: destination.Route{Topics: []destination.Topic{destination.Alerts}, Tenants: []string{"acme"},
				Levels: []string{"HIGH"}, Codes: []string{"TIMEOUT"}, Types: []string{"AlertOpened"}, Installation: true}},
		{Name: "mail", Kind: destination.Email, URL: "smtps://mail.example", From: "dvt@example.com",
			To: []string{"ops@example.com"}, User: "dvt"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configs differ (-want +got):\n%s", diff)
	}
	asJSON, err := destination.Parse([]byte(`{"destinations":[{"name":"a","kind":"syslog","url":"tcp://h:514"}]}`))
	if err != nil || len(asJSON) != 1 {
		t.Errorf("the same as JSON: %d destinations, %v", len(asJSON), err)
	}
}

func TestParse_NamesEveryViolationAndNoValue(t *testing.T) {
	t.Parallel()
	_, err := destination.Parse([]byte(`
destinations:
  - {name: A B, kind: pigeon, url: "https://user:hunter2@h", timeout: 5h, color: red}
  - {name: x, kind: webhook, url: "https://h", password: hunter2, secrets: [{file: a, env: b}]}
  - {name: x, kind: webhook, route: {topics: [birds], levels: [URGENT]}}
`))
	var wrong *destination.FileError
	if !errors.As(err, &wrong) {
		t.Fatalf("error is %v; want a *FileError", err)
	}
	var got []string
	for _, v := range wrong.Violations {
		got = append(got, v.Path+" "+v.Code)
	}
	want := []string{
		"destinations[0].color UNKNOWN_FIELD", "destinations[0].timeout INVALID", "destinations[0].name INVALID",
		"destinations[0].kind INVALID", "destinations[0].url SECRET_IN_FILE",
		"destinations[1].password SECRET_IN_FILE", "destinations[1].secrets[0] INVALID",
		"destinations[2].name DUPLICATE", "destinations[2].url REQUIRED", "destinations[2].route.topics[0] INVALID",
		"destinations[2].route.levels[0] INVALID",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations differ (-want +got):\n%s", diff)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Error("the error contains a secret that stands in the file")
	}
}

func TestParse_IsBounded(t *testing.T) {
	t.Parallel()
	var doc strings.Builder
	doc.WriteString("destinations:\n")
	for i := range destination.MaxDestinations + 1 {
		fmt.Fprintf(&doc, "  - {name: d%d, kind: syslog, url: \"tcp://h:514\"}\n", i)
	}
	if _, err := destination.Parse([]byte(doc.String())); err == nil {
		t.Error("a file with 101 destinations was accepted")
	}
	if _, err := destination.Parse(make([]byte, destination.MaxFile+1)); err == nil {
		t.Error("a file of more than 1 MiB was accepted")
	}
}

func TestSelects(t *testing.T) {
	t.Parallel()
	type (
		route  = destination.Route
		list   = []string
		topics = []destination.Topic
	)
	const hook, pager, mail, slack = destination.Webhook, destination.PagerDuty, destination.Email, destination.Slack
	alert := func(tenant, level string) destination.Message {
		return destination.Message{Topic: destination.Alerts, Type: "AlertOpened", TenantID: tenant, Level: level,
			Alert: &destination.AlertText{Code: "TIMEOUT"}}
	}
	event := destination.Message{Topic: destination.Events, Type: "StepFailed", TenantID: "acme", ProjectID: "p1"}
	for name, c := range map[string]struct {
		kind  destination.Kind
		route route
		m     destination.Message
		want  bool
	}{
		"a webhook takes events":           {hook, route{}, event, true},
		"a webhook takes low alerts":       {hook, route{}, alert("acme", "LOW"), true},
		"people get no events":             {slack, route{}, event, false},
		"people get no events by a route":  {mail, route{Types: list{"StepFailed"}}, event, false},
		"a pager gets high alerts":         {pager, route{}, alert("acme", "HIGH"), true},
		"a pager gets no medium alerts":    {pager, route{}, alert("acme", "MEDIUM"), false},
		"a mail says medium alerts":        {mail, route{}, alert("acme", "MEDIUM"), true},
		"a mail says no low alerts":        {mail, route{}, alert("acme", "LOW"), false},
		"another tenant":                   {hook, route{Tenants: list{"bolt"}}, event, false},
		"another project":                  {hook, route{Projects: list{"p2"}}, event, false},
		"another type":                     {hook, route{Types: list{"RunFailed"}}, event, false},
		"another topic":                    {hook, route{Topics: topics{destination.Alerts}}, event, false},
		"another code":                     {hook, route{Codes: list{"X"}}, alert("acme", "HIGH"), false},
		"levels leave events alone":        {hook, route{Levels: list{"HIGH"}}, event, true},
		"not a tenant's":                   {hook, route{Tenants: list{"acme"}}, alert("", "HIGH"), false},
		"not a project's":                  {hook, route{Projects: list{"p1"}}, alert("", "HIGH"), false},
		"the installation by the route":    {hook, route{Tenants: list{"acme"}, Installation: true}, alert("", "HIGH"), true},
		"the installation without tenants": {hook, route{Levels: list{"HIGH"}}, alert("", "HIGH"), true},
		"an alert of another tenant":       {hook, route{Tenants: list{"acme"}}, alert("bolt", "HIGH"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (destination.Config{Kind: c.kind, Route: c.route}).Selects(c.m); got != c.want {
				t.Errorf("Selects = %t; want %t", got, c.want)
			}
		})
	}
}

func TestParse_TheAuditGoesOnlyWhereItArrivesWhole(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		`kind: webhook, url: "https://h", route: {topics: [audit], tenants: [acme]}`:       "",
		`kind: webhook, url: "https://h", route: {topics: [audit, events]}`:                "",
		`kind: syslog, url: "tls://h", route: {topics: [audit], installation: true}`:       "",
		`kind: file, url: "file:///a", route: {topics: [audit]}`:                           "",
		`kind: file, url: "file:///a"`:                                                     "route.topics",
		`kind: file, url: "file:///a", route: {topics: [audit, alerts]}`:                   "route.topics",
		`kind: slack, url: "https://h", route: {topics: [audit]}`:                          "route.topics",
		`kind: syslog, url: "udp://h", route: {topics: [audit]}`:                           "url",
		`kind: webhook, url: "https://h", route: {topics: [audit], projects: [shop]}`:      "route",
		`kind: webhook, url: "https://h", route: {topics: [audit, alerts], levels: [LOW]}`: "route",
	} {
		_, err := destination.Parse([]byte("destinations:\n  - {name: a, " + entry + "}\n"))
		var wrong *destination.FileError
		switch {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", entry, err)
		case want != "" && (!errors.As(err, &wrong) || wrong.Violations[0].Path != "destinations[0]."+want):
			t.Errorf("%s gives %v, want a violation of %s", entry, err, want)
		}
	}
}

func TestSelects_TheAuditOfATenantGoesToItsOwnRouteAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		route   destination.Route
		tenants string // that are selected of acme, globex and ""
	}{
		{destination.Route{}, ""},
		{destination.Route{Topics: []destination.Topic{destination.Audit}}, "acme globex  "},
		{destination.Route{Topics: []destination.Topic{destination.Audit}, Tenants: []string{"acme"}}, "acme "},
		{destination.Route{Topics: []destination.Topic{destination.Audit}, Tenants: []string{"acme"}, Installation: true},
			"acme  "},
		{destination.Route{Topics: []destination.Topic{destination.Events}, Tenants: []string{"acme"}}, ""},
	} {
		got := ""
		for _, tenant := range []string{"acme", "globex", ""} {
			if (destination.Config{Kind: destination.Webhook, Route: c.route}).Selects(destination.Message{
				Topic: destination.Audit, TenantID: tenant}) {
				got += tenant + " "
			}
		}
		if got != c.tenants {
			t.Errorf("the route %+v selects %q, want %q", c.route, got, c.tenants)
		}
	}
}
