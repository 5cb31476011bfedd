package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/plan"
)

// ErrProgram is wrapped by errors of Start when the file cannot be executed: it does not exist, is not a program, or
// may not be executed. Arguments or an environment with a zero byte give this error too.
var ErrProgram = errors.New("sandbox: the program cannot be started")

// ErrPath is wrapped by errors of Start when a path of Read, Write or Dir cannot be given to the program: it does not
// exist, leads through a symbolic link, is not absolute, or is the root.
var ErrPath = errors.New("sandbox: the path cannot be given to the program")

// ErrConnect is wrapped by errors of Start when an entry of Connect is malformed.
var ErrConnect = errors.New("sandbox: the list of permitted connections is invalid")

// Unavailable is the error of Start when required parts of the sandbox cannot be applied on this machine.
//
//nolint:errname // The name is part of the contract.
type Unavailable struct {
	Missing map[plan.SandboxPart]string // each part with the reason
}

// Error names each missing part and its reason, in the order of the names.
func (u *Unavailable) Error() string {
	var reasons []string
	for part, reason := range u.Missing {
		reasons = append(reasons, fmt.Sprintf("%s (%s)", part, reason))
	}
	slices.Sort(reasons)
	return "this worker cannot apply parts of the sandbox: " + strings.Join(reasons, ", ")
}
