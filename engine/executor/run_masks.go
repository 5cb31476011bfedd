package executor

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/secret/mask"
)

const (
	// maxRunValues bounds the values of one run that are remembered, and maxMaskedRuns the runs.
	maxRunValues  = 200
	maxMaskedRuns = 1000
	// maskLife is how long the values of a run are remembered after its last step here, without a workspace.
	maskLife = time.Hour
)

// runMasks remembers the secrets that steps of a run got in this process, so that they are hidden in the output of
// every step of the run here: steps share a workspace, and one may print what another one wrote there. It forgets the
// values when the workspace of the run is gone. The zero value is ready for use, by several goroutines.
type runMasks struct {
	mu   sync.Mutex
	runs map[string]*runMask
}

type runMask struct {
	values []string
	steps  []*atomic.Pointer[mask.Masker] // of those that work now
	last   time.Time                      // of the last step that ended; zero before the first one did
}

// join adds the values that a step got and returns the masker of all values of the run. Steps of the run that work
// already hide the new values from now on, if watch has registered them.
func (m *runMasks) join(root, runID string, values []string) *mask.Masker {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[runID]
	if r == nil {
		m.sweep(root)
		if len(values) == 0 || len(m.runs) >= maxMaskedRuns {
			return mask.New(values...) // nothing to remember, or no room: the step hides its own
		}
		if m.runs == nil {
			m.runs = map[string]*runMask{}
		}
		r = &runMask{}
		m.runs[runID] = r
	}
	before := len(r.values)
	own := values
	for _, v := range values {
		if len(v) >= mask.MinBytes && !slices.Contains(r.values, v) && len(r.values) < maxRunValues {
			r.values = append(r.values, v)
		}
	}
	if len(r.values) > before {
		all := mask.New(r.values...)
		for _, step := range r.steps {
			step.Store(all)
		}
	}
	r.last = time.Now()
	return mask.New(append(slices.Clone(r.values), own...)...)
}

// watch lets a step that works hide the values that others of its run get meanwhile, until leave is called.
func (m *runMasks) watch(runID string, later *atomic.Pointer[mask.Masker]) (leave func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[runID]
	if r == nil {
		// The first step with a secret may begin while this one works.
		if len(m.runs) >= maxMaskedRuns {
			return func() {}
		}
		if m.runs == nil {
			m.runs = map[string]*runMask{}
		}
		r = &runMask{}
		m.runs[runID] = r
	}
	if len(r.values) > 0 { // somebody may have joined since this step did
		later.Store(mask.New(r.values...))
	}
	r.steps = append(r.steps, later)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		r.steps = slices.DeleteFunc(r.steps, func(l *atomic.Pointer[mask.Masker]) bool { return l == later })
		r.last = time.Now()
		if len(r.values) == 0 && len(r.steps) == 0 && m.runs[runID] == r {
			delete(m.runs, runID)
		}
	}
}

// has reports whether secrets of a run are hidden here.
func (m *runMasks) has(runID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[runID]
	return r != nil && len(r.values) > 0
}

// sweep forgets runs without a workspace and without a step that works here.
func (m *runMasks) sweep(root string) {
	for id, r := range m.runs {
		if len(r.steps) > 0 {
			continue
		}
		_, err := os.Lstat(filepath.Join(root, filepath.Base(id)))
		if root == "" || err != nil {
			if time.Since(r.last) > maskLife || root != "" {
				delete(m.runs, id)
			}
		}
	}
}
