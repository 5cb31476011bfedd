//go:build linux

package sandbox_test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/dvt-engine/dvt/sandbox"
)

// attackName is argv[0] of the test binary when it is the program of a step; argv[1] names the attempt.
const attackName = "attack"

// refusedStatus is the exit status of an attempt that did not succeed.
const refusedStatus = 3

func TestMain(m *testing.M) {
	sandbox.Main()
	if os.Args[0] == attackName {
		os.Exit(attackMain())
	}
	os.Exit(m.Run())
}

// attackMain runs the attempt that argv[1] names and returns the exit status. 0 means that the attempt succeeded.
func attackMain() int {
	runtime.LockOSThread()
	var w world
	if err := json.Unmarshal([]byte(os.Getenv("WORLD")), &w); err != nil {
		fmt.Println("the world cannot be read:", err)
		return 99
	}
	for _, a := range attempts() {
		if a.name != os.Args[1] {
			continue
		}
		if err := a.attack(w); err != nil {
			fmt.Println(err)
			return refusedStatus
		}
		fmt.Println("succeeded")
		return 0
	}
	fmt.Println("there is no such attempt")
	return 99
}
