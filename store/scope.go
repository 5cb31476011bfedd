package store

import "slices"

// Scope is a project and an environment of a tenant. An empty member stands for all projects or all environments.
type Scope struct {
	ProjectID     string `json:"projectId,omitempty"`
	EnvironmentID string `json:"environmentId,omitempty"`
}

// Covers reports whether the scope contains a project and an environment. An empty argument means all, and is contained
// only in a scope that covers all.
func (s Scope) Covers(projectID, environmentID string) bool {
	return (s.ProjectID == "" || s.ProjectID == projectID) && (s.EnvironmentID == "" || s.EnvironmentID == environmentID)
}

// Scopes is a union of scopes. nil is unrestricted; an empty list contains nothing.
type Scopes []Scope

// Contains reports whether one of the scopes covers a project and an environment. nil covers everything.
func (s Scopes) Contains(projectID, environmentID string) bool {
	return s == nil || slices.ContainsFunc(s, func(one Scope) bool { return one.Covers(projectID, environmentID) })
}

// Split returns the scopes in the form that adapters compare: environments of every project, projects with every
// environment, and pairs as "project/environment", because ids contain no slash. all is true for nil and when one scope
// covers everything. The lists are never nil.
func (s Scopes) Split() (environments, projects, pairs []string, all bool) {
	environments, projects, pairs = []string{}, []string{}, []string{}
	for _, one := range s {
		switch {
		case one == Scope{}:
			all = true
		case one.ProjectID == "":
			environments = append(environments, one.EnvironmentID)
		case one.EnvironmentID == "":
			projects = append(projects, one.ProjectID)
		default:
			pairs = append(pairs, one.ProjectID+"/"+one.EnvironmentID)
		}
	}
	return environments, projects, pairs, s == nil || all
}
