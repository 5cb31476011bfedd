package controltest

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/runs"
)

// ChangePolicy changes the policy of acme.
func (w *World) ChangePolicy(change func(*authz.Document)) {
	w.T.Helper()
	admin := w.Principal("dev-admin")
	now := Must[access.Policy](w.T)(w.Policy(w.T.Context(), admin))
	_, err := w.SetPolicy(w.T.Context(), admin, access.SetPolicy{
		RequestID: "p" + time.Now().Format("150405.000000000"), ExpectedVersion: now.Version, Document: w.Document(change),
		Reason: "test",
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

// Document returns the policy of acme with a change.
func (w *World) Document(change func(*authz.Document)) authz.Document {
	w.T.Helper()
	now, err := w.Policy(w.T.Context(), w.Principal("dev-admin"))
	if err != nil {
		w.T.Fatal(err)
	}
	doc := now.Document
	doc.Rules = nil
	doc.Grants = slices.Clone(doc.Grants)
	change(&doc)
	return doc
}

// WithoutGrants removes the grants of a principal from a policy.
func WithoutGrants(id string) func(*authz.Document) {
	return func(d *authz.Document) {
		d.Grants = slices.DeleteFunc(d.Grants, func(g authz.PrincipalGrant) bool { return g.Principal == id })
	}
}

// GrantTo replaces the rights of a principal.
func (w *World) GrantTo(id string, grants ...authz.Grant) authz.Principal {
	w.T.Helper()
	w.Directory.SetGrants("acme", id, grants)
	if err := w.Authz.Swap(authz.DefaultPolicy()); err != nil {
		w.T.Fatal(err)
	}
	return w.Principal(id)
}

// ViewerOf grants the role Viewer in a project and environment.
func ViewerOf(project, environment string) authz.Grant {
	return authz.Grant{Role: authz.Viewer, ProjectID: project, EnvironmentID: environment}
}

// TokenHash returns the hash by which an account stores its token.
func TokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// ApprovalOf approves a run.
func ApprovalOf(runID, requestID string) runs.ApproveRun {
	return runs.ApproveRun{RunID: runID, RequestID: requestID, Reason: "looks good"}
}

// RejectionOf rejects a run.
func RejectionOf(runID, requestID string) runs.ApproveRun {
	return runs.ApproveRun{RunID: runID, RequestID: requestID, Reject: true, Reason: "not on a Friday"}
}
