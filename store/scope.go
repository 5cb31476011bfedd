package store

import "slices"

// Scope is a project and an environment of a tenant. An empty member stands for all of its kind.
type Scope struct {
	ProjectID     string `json:"projectId,omitempty"`
	EnvironmentID string `json:"environmentId,omitempty"`
}

// Covers reports whether a project and an environment, or a whole of them, lie in the scope.
func (s Scope) Covers(projectID, environmentID string) bool {
	return (s.ProjectID == "" || s.ProjectID == projectID) && (s.EnvironmentID == "" || s.EnvironmentID == environmentID)
}

// Scopes are a union of scopes. nil restricts nothing; an empty list holds nothing.
type Scopes []Scope

// Hold reports whether one of the scopes covers a run's project and environment.
func (s Scopes) Hold(projectID, environmentID string) bool {
	return s == nil || slices.ContainsFunc(s, func(one Scope) bool { return one.Covers(projectID, environmentID) })
}

// Split returns the scopes as an adapter compares them: environments of every project, projects with every environment,
// and single places as "project/environment". Ids have no slash. all is true when one scope covers everything.
func (s Scopes) Split() (environments, projects, places []string, all bool) {
	environments, projects, places = []string{}, []string{}, []string{}
	for _, one := range s {
		switch {
		case one == Scope{}:
			all = true
		case one.ProjectID == "":
			environments = append(environments, one.EnvironmentID)
		case one.EnvironmentID == "":
			projects = append(projects, one.ProjectID)
		default:
			places = append(places, one.ProjectID+"/"+one.EnvironmentID)
		}
	}
	return environments, projects, places, s == nil || all
}
