package access_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
)

// Deny by default: a scope that the viewer may not read is not listed, even if it has runs.
// contract: T101
func TestPlaces_ListsOnlyReadableScopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, at := range []string{"shop dev", "shop dev", "store dev", "bank prod", "bank dev"} {
		project, environment, _ := strings.Cut(at, " ")
		w.CreateInProject("r"+string(rune('0'+i)), project, environment)
	}
	w.Directory.SetGrants("acme", "shop-viewer", []authz.Grant{
		{Role: authz.Viewer, ProjectID: "shop", EnvironmentID: "*"}, {Role: authz.Viewer, ProjectID: "bank",
			EnvironmentID: "stage"},
	})
	if err := w.Authz.Swap(authz.DefaultPolicy()); err != nil {
		t.Fatal(err)
	}
	all := []string{"bank/dev", "bank/prod", "shop/dev", "store/dev"}
	for who, want := range map[string][]string{
		"dev-viewer": all, "dev-admin": all, "shop-viewer": {"bank/stage", "shop/dev"},
		"two-viewer": {"shop/dev", "store/dev"},
		"env-viewer": {"bank/dev", "shop/dev", "store/dev"}, "nobody": nil, "dev-mallory": nil,
	} {
		if diff := cmp.Diff(want, w.places(who, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", who, diff)
		}
	}
	if diff := cmp.Diff([]string{"bank/dev", "bank/prod"}, w.places("dev-viewer", 2)); diff != "" {
		t.Errorf("the first two (-want +got):\n%s", diff)
	}
	if err := w.Raw.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := w.Scopes(t.Context(), w.Principal("dev-viewer"), 0)
	controltest.Refusal(t, err, run.CodeStoreUnavailable)
	if diff := cmp.Diff([]string(nil), w.places("nobody", 0)); diff != "" {
		t.Errorf("a principal that may read nothing gets places:\n%s", diff)
	}
}

func (w *world) places(token string, first int) (out []string) {
	w.T.Helper()
	for _, at := range controltest.Must[[]access.Scope](w.T)(w.Scopes(w.T.Context(), w.Principal(token), first)) {
		out = append(out, at.ProjectID+"/"+at.EnvironmentID)
	}
	return out
}
