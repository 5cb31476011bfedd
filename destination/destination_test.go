
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
