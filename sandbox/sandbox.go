// Package sandbox starts the program of a step so that the program reaches only what the step was given: its files, its
// connections, its share of memory, processor, processes and disk. Runtimes implement one contract with different means.
package sandbox

import (
	"context"
	"net/netip"
	"os"

	"github.com/dvt-engine/dvt/plan"
)

// Runtime starts programs with one kind of isolation. It may be used by several goroutines at once.
type Runtime interface {
	// Capabilities returns what New found out about this machine. It does not change afterwards.
	Capabilities() Capabilities
	// Start starts the program in a sandbox. An error means that nothing of the program has run: *Unavailable when a
	// required part cannot be applied on this machine, ErrProgram when the program itself cannot be executed.
	// The end of ctx does not stop the program; call Terminate or Kill.
	Start(ctx context.Context, p Program) (Process, error)
	// Close ends what the runtime keeps between programs. No program may be running.
	Close() error
}

// Process is a started program with everything that it started.
type Process interface {
	// Terminate asks every process of the sandbox to end (SIGTERM).
	Terminate()
	// Kill ends every process of the sandbox at once, including those that left the process group or the session.
	Kill()
	// Wait returns when the program has ended. Every process that it left behind has ended by then too.
	Wait() (Exit, error)
}

// Program is one program with its bounds. All paths are absolute, and lead through no symbolic links: the caller resolves
// those of operators, and a link that a program planted is refused with ErrPath.
type Program struct {
	Path   string   // the file to execute
	Argv   []string // Argv[0] is the name that the program sees
	Env    []string // KEY=VALUE; nothing is added
	Dir    string   // working directory
	Stdout *os.File // the caller closes its own copies
	Stderr *os.File

	Read  []string // files and directories that may be read and executed, beside the system's
	Write []string // files and directories that may also be changed

	// Connect lists the permitted TCP destinations as "PORT" or "HOST:PORT". nil leaves the decision to Judge alone; an
	// empty list permits none. A malformed entry is refused with ErrConnect.
	//
	// The loopback belongs to the step. That of the host is dialled when an entry names it, and when Connect is nil, nothing
	// in the step listens on the port and Judge permits it.
	Connect []string
	// Judge returns an error for an address that no program of this worker may reach. It is asked for each connection, with
	// the address that is dialled, by several goroutines at once. nil permits every address but the loopback of the host.
	Judge func(netip.AddrPort) error

	Limits Limits
	// Require lists parts without which the program does not start.
	Require []plan.SandboxPart

	// Violation is called for each refused action that the sandbox notices, from one goroutine at a time. The runtime calls
	// it at most MaxViolations times for a program.
	Violation func(Violation)
}

// Limits bounds what all processes of a program use together. Zero values mean the runtime's defaults.
type Limits struct {
	Memory int64   // bytes
	CPU    float64 // cores
	PIDs   int     // processes and threads at once
	Disk   int64   // bytes of one written file
}

// MaxViolations bounds the calls of Program.Violation.
const MaxViolations = 50

// Violation is an action that the sandbox refused.
type Violation struct {
	Part   plan.SandboxPart
	Action string // one sentence, for example "connect to 169.254.169.254:80 was refused by the address guard"
}

// Exit is how a program ended.
type Exit struct {
	Status int   // exit status; -1 after a signal
	Cause  Cause // the bound that ended it; empty when none did
}

// Cause is the bound that ended a program.
type Cause string

// The causes.
const (
	CauseMemory Cause = "memory" // the kernel ended a process of the sandbox because Limits.Memory was used up
	CausePIDs   Cause = "pids"   // a process or thread could not be started because Limits.PIDs was used up, and the program failed
	CauseDisk   Cause = "disk"   // a file would have grown past Limits.Disk
)

// Capabilities is what a runtime can enforce on this machine.
type Capabilities struct {
	Runtime string                      // "process", "docker" or "gvisor"
	Digest  string                      // SHA-256 of the runtime's own program, in hexadecimal
	Parts   []plan.SandboxPart          // in the order of plan.SandboxParts
	Missing map[plan.SandboxPart]string // the other parts, each with the reason, in words for an operator
}

// Has reports whether the runtime can enforce a part.
func (c Capabilities) Has(part plan.SandboxPart) bool {
	_, missing := c.Missing[part]
	return !missing
}
