package plan

// Sandbox says what the program of a COMMAND or DBT step may reach and use. The zero value asks for the defaults of the
// step's type. A tenant's policy may lower each limit; it never raises one. Executors apply it.
type Sandbox struct {
	// Read names files and directories that the program may read beside the defaults: the system's programs and
	// libraries, the project root and the run's workspace. A relative path lies under the project root.
	Read []string `json:"read,omitempty"`
	// Write names files and directories that the program may also change. The run's workspace is always among them.
	Write []string `json:"write,omitempty"`
	// Connect lists what the program may connect to by TCP: "PORT" or "HOST:PORT". nil leaves it to the guard of outgoing
	// addresses alone; an empty list permits no connection. The guard judges every address in any case.
	Connect []string `json:"connect,omitzero"`
	// Memory bounds the memory of all processes of the step together, in bytes; 0 is the default of the worker.
	Memory int64 `json:"memory,omitempty"`
	// CPU bounds the processor time per time, in cores; 0 is the default of the worker.
	CPU float64 `json:"cpu,omitempty"`
	// PIDs bounds how many processes and threads exist at once; 0 is the default of the worker.
	PIDs int `json:"pids,omitempty"`
	// Disk bounds the size of one file that the program writes, in bytes; 0 is the default of the worker.
	Disk int64 `json:"disk,omitempty"`
	// Require names the parts that must be in force. A worker without one of them does not execute the step, and a run
	// is refused when no worker of the step's queue has them all.
	Require []SandboxPart `json:"require,omitempty"`
}

// SandboxPart is one kind of isolation that a worker may or may not be able to give.
type SandboxPart string

// The parts of a sandbox.
const (
	SandboxFiles     SandboxPart = "files"     // Landlock, and a mount namespace of its own: other files do not exist
	SandboxNetwork   SandboxPart = "network"   // a network namespace of its own: no UDP, no abstract sockets, no loopback of the host
	SandboxConnect   SandboxPart = "connect"   // each TCP connection is judged by address
	SandboxProcesses SandboxPart = "processes" // a process namespace of its own: it sees and outlives nothing
	SandboxSyscalls  SandboxPart = "syscalls"  // seccomp, no new privileges
	SandboxMemory    SandboxPart = "memory"    // the bound holds for all processes together (cgroup), not for each
	SandboxCPU       SandboxPart = "cpu"
	SandboxPIDs      SandboxPart = "pids"
)

// SandboxParts lists every part.
func SandboxParts() []SandboxPart {
	return []SandboxPart{
		SandboxFiles, SandboxNetwork, SandboxConnect, SandboxProcesses, SandboxSyscalls, SandboxMemory, SandboxCPU, SandboxPIDs,
	}
}
