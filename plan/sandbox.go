package plan

// Sandbox describes the files, connections and resources of the program of a COMMAND or DBT step. The zero value asks
// for the defaults of the worker. A tenant's policy may lower each limit but never raises one. Executors apply it.
type Sandbox struct {
	// Read names files and directories that the program may read in addition to the defaults: the system's programs and
	// libraries, the project root and the run's workspace. A relative path lies under the project root.
	Read []string `json:"read,omitempty"`
	// Write names files and directories that the program may also change. The run's workspace is always among them.
	Write []string `json:"write,omitempty"`
	// Connect lists the permitted TCP destinations: "PORT" or "HOST:PORT". With nil the guard of outgoing addresses
	// decides alone; an empty list permits no connection. The guard judges every address in any case.
	Connect []string `json:"connect,omitzero"`
	// Memory bounds the memory of all processes of the step together, in bytes; 0 is the default of the worker.
	Memory int64 `json:"memory,omitempty"`
	// CPU bounds the use of the processor, in cores; 0 is the default of the worker.
	CPU float64 `json:"cpu,omitempty"`
	// PIDs bounds how many processes and threads exist at once; 0 is the default of the worker.
	PIDs int `json:"pids,omitempty"`
	// Disk bounds the size of one file that the program writes, in bytes; 0 is the default of the worker.
	Disk int64 `json:"disk,omitempty"`
	// Require names the parts that must be in force. A worker without one of them does not execute the step, and a run
	// is refused when no worker of the step's queue has them all.
	Require []SandboxPart `json:"require,omitempty"`
}

// SandboxPart is one kind of isolation. Not every worker can enforce each part.
type SandboxPart string

// The parts of a sandbox.
const (
	SandboxFiles SandboxPart = "files" // Landlock and a private mount namespace: other files do not exist
	// A private network namespace: no UDP, no abstract sockets, no loopback of the host.
	SandboxNetwork SandboxPart = "network"
	SandboxConnect SandboxPart = "connect" // each TCP connection is judged by address
	// A private process namespace: no other processes are visible, and none survives the program.
	SandboxProcesses SandboxPart = "processes"
	SandboxSyscalls  SandboxPart = "syscalls" // seccomp, no new privileges
	SandboxMemory    SandboxPart = "memory"   // a cgroup: the limit holds for all processes together
	SandboxCPU       SandboxPart = "cpu"
	SandboxPIDs      SandboxPart = "pids"
)

// SandboxParts lists every part.
func SandboxParts() []SandboxPart {
	return []SandboxPart{
		SandboxFiles, SandboxNetwork, SandboxConnect, SandboxProcesses, SandboxSyscalls, SandboxMemory, SandboxCPU,
		SandboxPIDs,
	}
}
