package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The actions of the filter.
const (
	actAllow  = 0x7fff0000 // SECCOMP_RET_ALLOW
	actErrno  = 0x00050000 // SECCOMP_RET_ERRNO, with the errno below
	actNotify = 0x7fc00000 // SECCOMP_RET_USER_NOTIF
	actKill   = 0x80000000 // SECCOMP_RET_KILL_PROCESS
)

// Offsets in struct seccomp_data. Arguments are 64 bits wide; the low half comes first on both architectures.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16
)

// cloneNamespaces are the flags of clone that create namespaces.
const cloneNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// namedCalls are refused by the supervisor, so that the step's log names the refused call.
var namedCalls = map[uint32]string{
	unix.SYS_PTRACE: "ptrace", unix.SYS_PROCESS_VM_READV: "process_vm_readv",
	unix.SYS_PROCESS_VM_WRITEV: "process_vm_writev",
	unix.SYS_PIDFD_GETFD:       "pidfd_getfd", unix.SYS_KCMP: "kcmp",
	unix.SYS_BPF: "bpf", unix.SYS_PERF_EVENT_OPEN: "perf_event_open", unix.SYS_USERFAULTFD: "userfaultfd",
	unix.SYS_KEYCTL: "keyctl", unix.SYS_ADD_KEY: "add_key", unix.SYS_REQUEST_KEY: "request_key",
	unix.SYS_MOUNT: "mount", unix.SYS_UMOUNT2: "umount2", unix.SYS_PIVOT_ROOT: "pivot_root", unix.SYS_CHROOT: "chroot",
	unix.SYS_FSOPEN: "fsopen", unix.SYS_FSCONFIG: "fsconfig", unix.SYS_FSMOUNT: "fsmount", unix.SYS_FSPICK: "fspick",
	unix.SYS_OPEN_TREE: "open_tree", unix.SYS_MOVE_MOUNT: "move_mount", unix.SYS_MOUNT_SETATTR: "mount_setattr",
	unix.SYS_UNSHARE: "unshare", unix.SYS_SETNS: "setns",
	unix.SYS_IO_URING_SETUP: "io_uring_setup", unix.SYS_IO_URING_ENTER: "io_uring_enter",
	unix.SYS_IO_URING_REGISTER: "io_uring_register",
	unix.SYS_OPEN_BY_HANDLE_AT: "open_by_handle_at", unix.SYS_NAME_TO_HANDLE_AT: "name_to_handle_at",
	unix.SYS_KEXEC_LOAD: "kexec_load", unix.SYS_KEXEC_FILE_LOAD: "kexec_file_load",
	unix.SYS_INIT_MODULE: "init_module", unix.SYS_FINIT_MODULE: "finit_module", unix.SYS_DELETE_MODULE: "delete_module",
	unix.SYS_REBOOT: "reboot", unix.SYS_SWAPON: "swapon", unix.SYS_SWAPOFF: "swapoff", unix.SYS_ACCT: "acct",
	unix.SYS_QUOTACTL: "quotactl", unix.SYS_SETTIMEOFDAY: "settimeofday", unix.SYS_CLOCK_SETTIME: "clock_settime",
	unix.SYS_SETHOSTNAME: "sethostname", unix.SYS_SETDOMAINNAME: "setdomainname", unix.SYS_SYSLOG: "syslog",
	unix.SYS_FANOTIFY_INIT: "fanotify_init", unix.SYS_PERSONALITY: "personality",
}

// quietCalls fail with EPERM and are not logged. Libraries try some of them on their own, so they do not indicate an
// attack.
var quietCalls = append([]uint32{
	unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL, unix.SYS_VHANGUP, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	443, // quotactl_fd
	467, // open_tree_attr
}, archQuietCalls...)

// program is a classic BPF program under construction.
type program []unix.SockFilter

func (p *program) load(offset uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

func (p *program) ret(action uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action})
}

// when appends the body, which is skipped unless the loaded value meets the condition.
func (p *program) when(condition uint16, k uint32, body func(*program)) {
	p.branch(condition, k, false, body)
}

// unless appends the body, which is skipped when the loaded value meets the condition.
func (p *program) unless(condition uint16, k uint32, body func(*program)) {
	p.branch(condition, k, true, body)
}

func (p *program) branch(condition uint16, k uint32, inverted bool, body func(*program)) {
	var inner program
	body(&inner)
	jump := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | condition, K: k}
	if inverted {
		jump.Jt = uint8(len(inner))
	} else {
		jump.Jf = uint8(len(inner))
	}
	*p = append(append(*p, jump), inner...)
}

// call appends the rules of one system call. The number is loaded when the body begins. The call is allowed when the
// body does not return an action.
func (p *program) call(number uint32, body func(*program)) {
	p.when(unix.BPF_JEQ, number, func(p *program) {
		body(p)
		p.ret(actAllow)
	})
}

func arg(i uint32) uint32 { return dataArgs + 8*i }

// filter returns the program that decides each system call of a step. The supervisor answers those with actNotify.
func filter() []unix.SockFilter {
	notify := func(p *program) { p.ret(actNotify) }
	fail := func(errno unix.Errno) func(*program) {
		return func(p *program) { p.ret(actErrno | uint32(errno)) }
	}
	var p program
	p.load(dataArch)
	p.unless(unix.BPF_JEQ, auditArch, func(p *program) { p.ret(actKill) })
	p.load(dataNumber)
	if runtime.GOARCH == "amd64" {
		p.when(unix.BPF_JGE, 0x40000000, func(p *program) { p.ret(actKill) }) // x32
	}
	p.call(unix.SYS_CONNECT, notify)
	p.call(unix.SYS_LISTEN, notify)
	p.call(unix.SYS_CLONE, func(p *program) {
		p.load(arg(0))
		p.when(unix.BPF_JSET, cloneNamespaces, notify)
	})
	// clone3 takes its flags from memory, which a filter cannot read. Without it libraries use clone.
	p.call(unix.SYS_CLONE3, fail(unix.ENOSYS))
	p.call(unix.SYS_SOCKET, func(p *program) {
		p.load(arg(0))
		p.when(unix.BPF_JEQ, unix.AF_UNIX, func(p *program) { p.ret(actAllow) })
		p.when(unix.BPF_JEQ, unix.AF_NETLINK, func(p *program) {
			p.load(arg(2))
			p.unless(unix.BPF_JEQ, unix.NETLINK_ROUTE, notify)
			p.ret(actAllow)
		})
		inet := func(p *program) {
			p.load(arg(1))
			*p = append(*p, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf})
			p.when(unix.BPF_JEQ, unix.SOCK_STREAM, func(p *program) { p.ret(actAllow) })
			p.when(unix.BPF_JEQ, unix.SOCK_DGRAM, func(p *program) { p.ret(actAllow) })
			p.ret(actNotify)
		}
		p.when(unix.BPF_JEQ, unix.AF_INET, inet)
		p.when(unix.BPF_JEQ, unix.AF_INET6, inet)
		p.ret(actNotify)
	})
	p.call(unix.SYS_IOCTL, func(p *program) {
		p.load(arg(1))
		p.when(unix.BPF_JEQ, unix.TIOCSTI, notify)
		p.when(unix.BPF_JEQ, 0x541c, notify) // TIOCLINUX
	})
	p.call(unix.SYS_PERSONALITY, func(p *program) {
		p.load(arg(0))
		for _, harmless := range []uint32{0, 0x8, 0x20000, 0x20008, 0xffffffff} {
			p.when(unix.BPF_JEQ, harmless, func(p *program) { p.ret(actAllow) })
		}
		p.ret(actNotify)
	})
	// The supervisor refuses devices and leaves other calls on files to the kernel. A device could not be opened anyway,
	// because all mounts are nodev.
	p.call(unix.SYS_BIND, notify)
	for number := range fileCalls {
		p.when(unix.BPF_JEQ, number, notify)
	}
	// A message with MSG_FASTOPEN connects without the call connect.
	for number, flags := range map[uint32]uint32{unix.SYS_SENDTO: 3, unix.SYS_SENDMSG: 2, unix.SYS_SENDMMSG: 3} {
		p.call(number, func(p *program) {
			p.load(arg(flags))
			p.when(unix.BPF_JSET, unix.MSG_FASTOPEN, notify)
		})
	}
	for number := range namedCalls {
		if number == unix.SYS_PERSONALITY {
			continue // decided above
		}
		p.when(unix.BPF_JEQ, number, notify)
	}
	for _, number := range quietCalls {
		p.when(unix.BPF_JEQ, number, fail(unix.EPERM))
	}
	p.ret(actAllow)
	return p
}

// installFilter applies the filter to the calling thread and its later children. It returns the descriptor on which the
// supervisor receives calls with actNotify. The thread must have set no_new_privs.
func installFilter() (int, error) {
	f := filter()
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	install := func(flags uintptr) (uintptr, unix.Errno) {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		return fd, errno
	}
	// WAIT_KILLABLE_RECV, since Linux 5.19, keeps a signal from repeating a connect that the supervisor already makes.
	fd, errno := install(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errno == unix.EINVAL {
		fd, errno = install(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}
	if errno != 0 {
		return 0, fmt.Errorf("seccomp: %w", errno)
	}
	return int(fd), nil
}
