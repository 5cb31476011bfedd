package runs_test

import (
	"testing"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/server/usecases"
)

// world is the common fixture with the methods that only the tests of this package need.
type world struct{ *controltest.World }

func newWorld(t *testing.T, change ...func(*usecases.Config)) *world {
	t.Helper()
	return &world{controltest.New(t, change...)}
}

// newWithApprovals returns a world whose policy demands approvals.
func newWithApprovals(t *testing.T, required int, change ...func(*authz.Document)) *world {
	t.Helper()
	return &world{controltest.NewWithApprovals(t, required, change...)}
}
