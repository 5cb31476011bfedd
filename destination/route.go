package destination

import "slices"

// Selects reports whether a message goes to the destination. The kinds that people read take alerts only. A
// destination without a route takes what its kind is for: PagerDuty, which wakes people, alerts with the level HIGH;
// Slack and e-mail those from MEDIUM; webhook and syslog all events and alerts. The audit and lineage need a route that
// names them.
func (c Config) Selects(m Message) bool {
	if m.Topic == Audit {
		return c.SelectsAudit(m.TenantID)
	}
	if m.Topic == Lineage {
		return c.TakesLineage() && c.Route.selects(m)
	}
	forPeople := c.Kind == PagerDuty || c.Kind == Slack || c.Kind == Email
	if m.Topic == Events && forPeople {
		return false
	}
	if c.Route.isEmpty() {
		return !forPeople || m.Level == "HIGH" || m.Level == "MEDIUM" && c.Kind != PagerDuty
	}
	return c.Route.selects(m)
}

func (r Route) isEmpty() bool {
	return len(r.Topics)+len(r.Tenants)+len(r.Projects)+len(r.Types)+len(r.Levels)+len(r.Codes) == 0 && !r.Installation
}

func (r Route) selects(m Message) bool {
	allows := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	if len(r.Topics) > 0 && !slices.Contains(r.Topics, m.Topic) || !allows(r.Types, m.Type) {
		return false
	}
	if m.Topic == Alerts {
		if !allows(r.Levels, m.Level) || m.Alert == nil || !allows(r.Codes, m.Alert.Code) {
			return false
		}
		if m.TenantID == "" { // about the installation, which no tenant may be told of unless the route says so
			return r.Installation || len(r.Tenants) == 0 && len(r.Projects) == 0
		}
	}
	return allows(r.Tenants, m.TenantID) && allows(r.Projects, m.ProjectID)
}

// TakesEvents reports whether the destination of the entry takes any events of runs of a tenant.
func (e Entry) TakesEvents(tenantID string) bool {
	switch e.Kind {
	case PagerDuty, Slack, Email, File:
		return false
	case Webhook, Syslog:
	}
	r := e.Route
	return (len(r.Topics) == 0 || slices.Contains(r.Topics, Events)) &&
		(len(r.Tenants) == 0 || slices.Contains(r.Tenants, tenantID))
}

// TakesAudit reports whether the destination takes records of the audit.
func (c Config) TakesAudit() bool { return slices.Contains(c.Route.Topics, Audit) }

// TakesLineage reports whether the destination takes lineage.
func (c Config) TakesLineage() bool { return slices.Contains(c.Route.Topics, Lineage) }

// SelectsAudit reports whether the destination takes the audit of a tenant; "" is that of the installation.
func (c Config) SelectsAudit(tenantID string) bool {
	switch {
	case !c.TakesAudit():
		return false
	case len(c.Route.Tenants) == 0:
		return true
	case tenantID == "":
		return c.Route.Installation
	}
	return slices.Contains(c.Route.Tenants, tenantID)
}
