package executor_test

import (
	"os"
	"testing"

	"github.com/dvt-engine/dvt/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	os.Exit(m.Run())
}
