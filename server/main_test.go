package server_test

import (
	"os"
	"testing"

	"github.com/dvt-engine/dvt/internal/privatenet"
)

func TestMain(m *testing.M) {
	privatenet.Main() // does not return when this process is the starter of a network
	os.Exit(m.Run())
}
