package control_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// One key decrypts the payloads of all tenants, so without an operators' tenant nobody may read them.
func TestMayReadPayloads_IsForTheOperatorsSRE(t *testing.T) {
	t.Parallel()
	const no = run.CodeForbidden
	for operators, want := range map[string]map[string]run.Code{
		"acme":   {"dev-sre": "", "dev-admin": no, "dev-viewer": no, "dev-mallory": no},
		"globex": {"dev-sre": no, "dev-admin": no, "dev-viewer": no, "dev-mallory": no},
		"":       {"dev-sre": no, "dev-admin": no, "dev-viewer": no, "dev-mallory": no},
	} {
		w := newWorld(t, func(c *usecases.Config) { c.OperatorsTenant = operators })
		got := map[string]run.Code{}
		for who := range want {
			got[who] = controltest.CodeOf(w.MayReadPayloads(t.Context(), w.Principal(who)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("operators of %q (-want +got):\n%s", operators, diff)
		}
	}
}
