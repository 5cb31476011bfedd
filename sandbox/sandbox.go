// Package sandbox starts the program of a step so that it reaches only the files, connections, memory, processor,
// processes and disk that the step was given. Each Runtime implements the same contract with different means.
package sandbox

import (
	"context"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/plan"
)

// Runtime starts programs with one kind of isolation. It may be used by several goroutines at once.
type Runtime interface {
	// Capabilities returns the parts that New found enforceable on this machine. The result does not change afterwards.
	Capabilities() Capabilities
	// Start starts the program in a sandbox. An error means that the program has not run at all: *Unavailable when a
	// required part cannot be applied on this machine, ErrProgram when the program itself cannot be executed, ErrPath
	// or ErrConnect when p is invalid. The end of ctx does not stop a started program; call Terminate or Kill.
	Start(ctx context.Context, p Program) (Process, error)
	// Close releases the resources that the runtime holds between programs. No program may be running.
	Close() error
}

// Process is a started program with all of its descendants. Terminate and Kill may be called from several goroutines.
type Process interface {
	// Terminate asks every process of the sandbox to end (SIGTERM).
	Terminate()
	// Kill ends every process of the sandbox at once, including those that left the process group or the session.
	Kill()
	// Wait returns when the program and every process that it left behind have ended. The caller calls it once.
	Wait() (Exit, error)
}

// Program is one program with its bounds. All paths are absolute and contain no symbolic links. The caller resolves the
// links of operators; Start refuses any other link with ErrPath, because an earlier program may have planted it.
type Program struct {
	Path   string   // the file to execute
	Argv   []string // Argv[0] is the name that the program sees
	Env    []string // KEY=VALUE; the complete environment
	Dir    string   // working directory
	Stdout *os.File // the caller closes its own copies
	Stderr *os.File

	Read  []string // files and directories that may be read and executed, in addition to those of Config.Read
	Write []string // files and directories that may also be changed

	// Connect lists the permitted TCP destinations as "PORT" or "HOST:PORT". nil leaves the decision to Judge alone; an
	// empty list permits none. A malformed entry is refused with ErrConnect.
	//
	// A step has its own loopback. A loopback address means that of the host in two cases: an entry of Connect names
	// it, or Connect is nil, no server of the step listens on the port, and Judge permits the address.
	Connect []string
	// Judge returns an error for an address that no program of this worker may reach. It is called for each connection
	// with the dialled address, from several goroutines at once. nil permits every address except the host's loopback.
	Judge func(netip.AddrPort) error

	Limits Limits
	// Require lists parts without which the program does not start.
	Require []plan.SandboxPart

	// Violation is called for each refused action that the sandbox notices, from one goroutine at a time. The runtime
	// calls it at most MaxViolations times for a program, and once for each kind of access to a file. It is called before
	// the program learns of the refusal, and the program waits meanwhile. Capabilities.Unreported says whether it is
	// called at all.
	Violation func(Violation)
}

// Limits bounds the resources of all processes of a program together. Zero values mean the runtime's defaults.
type Limits struct {
	Memory int64   // bytes
	CPU    float64 // cores
	PIDs   int     // processes and threads at once
	Disk   int64   // bytes of one written file
}

// MaxViolations bounds the calls of Program.Violation.
const MaxViolations = 50

// Violation is an action that the sandbox refused, or a notice.
type Violation struct {
	Part   plan.SandboxPart
	Action string // for people, for example "connect to 169.254.169.254:80 was refused by the address guard"
	Notice bool   // nothing was refused, but the action has another effect than outside of a sandbox
}

// Exit is how a program ended.
type Exit struct {
	Status int    // exit status; -1 after a signal
	Signal string // name of the signal that ended it, such as SIGKILL; empty when none did or when it is not known
	Cause  Cause  // the bound that ended it; empty when none did
}

// SignalOf returns the name of the signal that ended a process, such as SIGKILL; empty when none did.
func SignalOf(p *os.ProcessState) string {
	if status, ok := p.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return unix.SignalName(status.Signal())
	}
	return ""
}

// Cause is the bound that ended a program.
type Cause string

// The causes.
const (
	CauseMemory Cause = "memory" // the kernel ended a process of the sandbox because Limits.Memory was used up
	CausePIDs   Cause = "pids"   // a process or thread was refused because Limits.PIDs was used up, and the program failed
	CauseDisk   Cause = "disk"   // a file would have grown past Limits.Disk, or a temporary directory was full
)

// Capabilities lists the parts of the sandbox that a runtime can and cannot enforce on this machine.
type Capabilities struct {
	Runtime string                      // "process", "docker" or "gvisor"
	Digest  string                      // SHA-256 of the runtime's own program, in hexadecimal
	Parts   []plan.SandboxPart          // in the order of plan.SandboxParts
	Missing map[plan.SandboxPart]string // the other parts, each with the reason, in words for an operator
	// Unreported says why Program.Violation is not called for refused actions, in words for an operator. It is empty
	// when the runtime reports them.
	Unreported string
	// SeparateOutputs means that the runtime carries stdout and stderr separately, so that the order of writes between
	// them is lost even when Program.Stdout and Program.Stderr are one pipe.
	SeparateOutputs bool
}

// Has reports whether the runtime can enforce a part.
func (c Capabilities) Has(part plan.SandboxPart) bool {
	_, missing := c.Missing[part]
	return !missing
}
