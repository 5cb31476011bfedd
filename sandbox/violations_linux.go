package sandbox

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dvt-engine/dvt/plan"
)

// maxFileViolations bounds the lines about refused files, so that a program that searches many paths leaves room for
// other refused actions. It is below MaxViolations.
const maxFileViolations = 40

// violations reports refused actions, each distinct one once and at most MaxViolations of them. The last one says that
// further actions are not reported. Several goroutines may use it at once.
type violations struct {
	report func(Violation)

	mu        sync.Mutex
	seen      map[Violation]bool
	seenFiles map[string]bool
	closed    bool

	filesFull atomic.Bool
}

func (v *violations) add(part plan.SandboxPart, action string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.addLocked(Violation{Part: part, Action: action})
}

// addFile reports a refused file. Later calls with the same key do nothing. The last of maxFileViolations says that
// further files are not reported.
func (v *violations) addFile(key string, one Violation) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seenFiles[key] || v.filesFull.Load() {
		return
	}
	if v.seenFiles == nil {
		v.seenFiles = map[string]bool{}
	}
	v.seenFiles[key] = true
	if len(v.seenFiles) == maxFileViolations {
		v.filesFull.Store(true)
		one = Violation{Part: plan.SandboxFiles, Action: fmt.Sprintf("more files were refused; only the first %d have a line",
			maxFileViolations-1)}
	}
	v.addLocked(one)
}

// filesAreFull reports whether addFile has no effect any more.
func (v *violations) filesAreFull() bool { return v.filesFull.Load() || v.report == nil }

func (v *violations) addLocked(one Violation) {
	if v.report == nil || v.closed || v.seen[one] || len(v.seen) >= MaxViolations {
		return
	}
	if len(v.seen) == MaxViolations-1 {
		if one.Notice {
			return // the last line is for refusals
		}
		one = Violation{Part: one.Part, Action: fmt.Sprintf("more actions were refused; only the first %d lines are shown",
			MaxViolations-1)}
		v.filesFull.Store(true)
	}
	if v.seen == nil {
		v.seen = map[Violation]bool{}
	}
	v.seen[one] = true
	v.report(one)
}

// close waits for a running call of report and prevents further ones.
func (v *violations) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
}
