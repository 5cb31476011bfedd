package admission

import (
	"time"

	"github.com/dvt-engine/dvt/store"
)

// ArrivalBatch decides about runs that arrive in one transaction. A store reads the rows of each lane once, under its
// lock, and Arrive counts the earlier runs in memory, so that the verdicts equal those of consecutive transactions. The
// zero value is ready to use. It is not safe for concurrent use.
type ArrivalBatch struct {
	installation Lane
	others       bool // OthersOfInstallation
	tenants      map[string]*batchTenant
}

type batchTenant struct {
	lane     Lane
	full     time.Time
	projects map[string]*batchProject
}

type batchProject struct {
	now    time.Time
	lane   Lane
	full   time.Time
	others bool // OthersOfTenant
}

// Add sets the rows that decide about runs of one project. The store reads all rows under the same lock, before the
// first call of Arrive.
func (c *ArrivalBatch) Add(tenantID, projectID string, r Rows) {
	c.installation, c.others = r.Installation, r.OthersOfInstallation
	if c.tenants == nil {
		c.tenants = map[string]*batchTenant{}
	}
	t := c.tenants[tenantID]
	if t == nil {
		t = &batchTenant{projects: map[string]*batchProject{}}
		c.tenants[tenantID] = t
	}
	t.lane, t.full = r.Tenant, r.TenantFull
	t.projects[projectID] = &batchProject{now: r.Now, lane: r.Project, full: r.ProjectFull, others: r.OthersOfTenant}
}

// Arrive decides about the next run like the function Arrive, and also returns the rows that decided. A refused run
// changes nothing for later runs. Add must have been called for the project.
func (c *ArrivalBatch) Arrive(tenantID, projectID string, terms store.Terms) (Verdict, Rows, error) {
	t := c.tenants[tenantID]
	p := t.projects[projectID]
	r := Rows{
		Now: p.now, Installation: c.installation, Tenant: t.lane, Project: p.lane, TenantFull: t.full, ProjectFull: p.full,
		OthersOfInstallation: c.others, OthersOfTenant: p.others,
	}
	v, err := Arrive(terms, projectID, r)
	switch {
	case err != nil:
		return v, r, err
	case v.Admitted:
		for _, l := range []*Lane{&c.installation, &t.lane, &p.lane} {
			l.Active++
		}
		if v.Token != nil && v.Token.ProjectID != "" {
			p.full = v.Token.FullAt
		} else if v.Token != nil {
			t.full = v.Token.FullAt
		}
		return v, r, nil
	}
	if p.lane.Waiting == 0 { // its lane now has a waiting run, which other lanes must take into account
		c.others = true
		for id, other := range t.projects {
			other.others = other.others || id != projectID
		}
	}
	for _, l := range []*Lane{&c.installation, &t.lane, &p.lane} {
		l.Waiting++
	}
	return v, r, nil
}
