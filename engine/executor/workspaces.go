package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

const (
	// removing is the beginning of the name of a workspace that is being removed. A worker that was killed meanwhile
	// finds the rest by it.
	removing = ".removing-"
	// sweepEvery is the least time between two sweeps, watchEvery between two measurements while a step runs. Measuring
	// takes at most a share of measureShare of the time.
	sweepEvery   = time.Minute
	watchEvery   = 5 * time.Second
	measureShare = 20
	// entryBytes is what a file counts at least, so that empty files are bounded too.
	entryBytes = 512
)

// Reasons for which a workspace is removed, as the metric names them.
const (
	removedEnded = "ended" // its run has ended
	removedIdle  = "idle"  // no step worked in it here for WorkspaceLimits.Life
	removedRest  = "rest"  // the rest of a removal that a kill interrupted
)

// WorkspaceLimits bound the workspaces of a worker.
type WorkspaceLimits struct {
	Bytes int64         // of the files of one run; 0 means no bound
	Life  time.Duration // after the last step here; 0 means without an end
}

// Workspaces keeps the directories of runs on the disk of a worker: it bounds them and removes them. Several processes
// may share the parent directory, because a workspace in use is locked. Safe for concurrent use.
type Workspaces struct {
	root   string
	limits WorkspaceLimits
	log    *slog.Logger

	bytes   prometheus.Gauge
	count   prometheus.Gauge
	removed *prometheus.CounterVec
	full    prometheus.Counter

	mu    sync.Mutex
	sizes map[string]int64 // by run, after its last step here
	asked string           // the last run that Idle returned
}

// NewWorkspaces makes Workspaces for the runs whose directories are below root, and registers their metrics.
func NewWorkspaces(root string, limits WorkspaceLimits, r prometheus.Registerer, log *slog.Logger) *Workspaces {
	register := promauto.With(r)
	w := &Workspaces{root: root, limits: limits, log: log, sizes: map[string]int64{},
		bytes: register.NewGauge(prometheus.GaugeOpts{Name: "dvt_workspace_bytes",
			Help: "Bytes of the workspaces of runs on the disk of this worker, at the last sweep."}),
		count: register.NewGauge(prometheus.GaugeOpts{Name: "dvt_workspaces",
			Help: "Workspaces of runs on the disk of this worker, at the last sweep."}),
		removed: register.NewCounterVec(prometheus.CounterOpts{Name: "dvt_workspaces_removed_total",
			Help: "Workspaces that this worker removed, by why."}, []string{"reason"}),
		full: register.NewCounter(prometheus.CounterOpts{Name: "dvt_workspace_full_total",
			Help: "Steps that failed because the workspace of their run was full."}),
	}
	for _, reason := range []string{removedEnded, removedIdle, removedRest} {
		w.removed.WithLabelValues(reason)
	}
	return w
}

// openWorkspace creates or finds the workspace of a run and locks it, so that no process removes it before release.
func openWorkspace(root, runID string) (dir string, release func(), err error) {
	dir = filepath.Join(root, filepath.Base(runID))
	for {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", nil, fmt.Errorf("workspace: %s", reason(err))
		}
		err := os.Chmod(dir, 0o700) // a program may have changed the mode
		var lock *os.File
		if err == nil {
			lock, err = lockDir(dir, syscall.LOCK_SH)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed since
			continue
		case err != nil:
			return "", nil, fmt.Errorf("workspace: %s", reason(err))
		}
		touch(dir)
		return dir, func() { touch(dir); _ = lock.Close() }, nil
	}
}

// lockDir opens and locks a directory until the file is closed or the process ends. It returns fs.ErrNotExist when the
// directory was removed before it was locked.
func lockDir(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		_ = f.Close()
		return nil, err
	}
	locked, err := f.Stat()
	now, statErr := os.Lstat(dir)
	if err == nil && statErr == nil && os.SameFile(locked, now) {
		return f, nil
	}
	_ = f.Close()
	return nil, errors.Join(err, fs.ErrNotExist)
}

// touch notes the time of the last use.
func touch(dir string) {
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
}

// list returns the workspaces of runs: the id of the run and the time of the last use.
func (w *Workspaces) list() map[string]time.Time {
	entries, err := os.ReadDir(w.root)
	if err != nil {
		w.log.Warn("the workspaces cannot be listed, so none is removed", slog.String("error", reason(err)))
	}
	out := map[string]time.Time{}
	for _, e := range entries {
		// The ids of runs are UUIDs: nothing else that somebody put there is ever removed.
		if _, err := uuid.Parse(e.Name()); err != nil || !e.IsDir() {
			continue
		}
		if info, err := e.Info(); err == nil {
			out[e.Name()] = info.ModTime()
		}
	}
	return out
}

// Ask returns the ids of at most n runs that have a workspace here, each in its turn: the caller asks a server which of
// them have ended, and calls Remove. Nil Workspaces have none.
func (w *Workspaces) Ask(n int) []string {
	if w == nil {
		return nil
	}
	ids := []string{}
	for id := range w.list() {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	w.mu.Lock()
	defer w.mu.Unlock()
	if after, _ := slices.BinarySearch(ids, w.asked+"\x00"); len(ids) > n {
		ids = append(ids[after:], ids[:after]...)[:n]
		w.asked = ids[n-1]
	}
	return ids
}

// Remove removes the workspaces of runs that have ended. One in which a step works stays until it is asked for again.
func (w *Workspaces) Remove(ended []string) {
	known := map[string]time.Time{}
	if len(ended) > 0 {
		known = w.list()
	}
	for _, id := range ended {
		if _, ok := known[id]; ok {
			w.remove(id, removedEnded, time.Time{})
		}
	}
}

// remove removes one workspace unless a step works in it, or did after unusedSince if that is set.
func (w *Workspaces) remove(runID, why string, unusedSince time.Time) {
	dir := filepath.Join(w.root, runID)
	_ = os.Chmod(dir, 0o700)
	lock, err := lockDir(dir, syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		return // in use, or gone
	}
	if info, err := lock.Stat(); !unusedSince.IsZero() && (err != nil || info.ModTime().After(unusedSince)) {
		_ = lock.Close()
		return
	}
	gone := filepath.Join(w.root, removing+runID+"-"+uuid.NewString())
	err = os.Rename(dir, gone)
	_ = lock.Close() // a step that waits for it makes a new workspace
	if err != nil {
		w.log.Warn("a workspace cannot be removed", slog.String("runId", runID), slog.String("error", reason(err)))
		return
	}
	w.mu.Lock()
	delete(w.sizes, runID)
	w.mu.Unlock()
	w.delete(gone, why)
}

// delete deletes a directory that is no workspace any more.
func (w *Workspaces) delete(dir, why string) {
	if err := os.RemoveAll(dir); err != nil {
		openDirs(dir)
		err = os.RemoveAll(dir)
		if err != nil {
			w.log.Warn("a removed workspace cannot be deleted; the next sweep tries again", slog.String("directory", dir),
				slog.String("error", reason(err)))
			return
		}
	}
	w.removed.WithLabelValues(why).Inc()
}

// openDirs makes directories whose mode a program changed deletable. It follows no links.
func openDirs(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		if os.Chmod(dir, 0o700) != nil {
			return
		}
		if root, err = os.OpenRoot(dir); err != nil {
			return
		}
	}
	defer root.Close()
	_ = root.Chmod(".", 0o700)
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if d == nil || !d.IsDir() {
			return nil
		}
		if err != nil { // it was not readable before it is opened
			return fs.SkipDir
		}
		_ = root.Chmod(path, 0o700)
		return nil
	})
}

// Run removes what is left of earlier processes, and then sweeps until ctx ends.
func (w *Workspaces) Run(ctx context.Context) {
	for {
		began := time.Now()
		w.Sweep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(sweepEvery, measureShare*time.Since(began))):
		}
	}
}

// Sweep finishes removals that a kill interrupted, removes workspaces that are unused for longer than their life, and
// measures the others.
func (w *Workspaces) Sweep(ctx context.Context) {
	rest, _ := filepath.Glob(filepath.Join(w.root, removing+"*"))
	for _, dir := range rest {
		w.delete(dir, removedRest)
	}
	all, bytes := w.list(), int64(0)
	for id, used := range all {
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		if used.After(now.Add(time.Minute)) { // a program set it
			touch(filepath.Join(w.root, id))
		}
		if w.limits.Life > 0 && now.Sub(used) > w.limits.Life {
			w.remove(id, removedIdle, now.Add(-w.limits.Life))
		}
		bytes += bytesOf(filepath.Join(w.root, id), math.MaxInt64)
	}
	w.bytes.Set(float64(bytes))
	w.count.Set(float64(len(w.list())))
}

// bytesOf returns the bytes on the disk of all files below a directory. It stops above most.
func bytesOf(dir string, most int64) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d == nil {
			return nil //nolint:nilerr // a file that is gone, or a directory that cannot be read
		}
		n += entryBytes
		if info, err := d.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				n += stat.Blocks * 512
			}
		}
		if n > most {
			return fs.SkipAll
		}
		return nil
	})
	return n
}

var errWorkspaceFull = errors.New("executor: the workspace of the run is full")

// within calls f with a context that ends when the workspace grows over its bound. It returns the *Failure
// WORKSPACE_FULL instead of the result of f when the workspace is over the bound before, meanwhile or afterwards.
func (w *Workspaces) within(ctx context.Context, runID, dir string, f func(context.Context) (Result, error)) (Result,
	error) {
	if w == nil || w.limits.Bytes <= 0 {
		return f(ctx)
	}
	w.mu.Lock()
	size, known := w.sizes[runID]
	w.mu.Unlock()
	if !known {
		size = bytesOf(dir, w.limits.Bytes)
	}
	if size > w.limits.Bytes {
		return Result{}, w.fullFailure()
	}
	watched, end := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		pause := watchEvery
		for {
			select {
			case <-watched.Done():
				return
			case <-time.After(pause):
			}
			began := time.Now()
			if bytesOf(dir, w.limits.Bytes) > w.limits.Bytes {
				end(errWorkspaceFull)
			}
			pause = max(watchEvery, measureShare*time.Since(began))
		}
	}()
	result, err := f(watched)
	cut := errors.Is(context.Cause(watched), errWorkspaceFull)
	end(nil)
	<-done
	size = bytesOf(dir, w.limits.Bytes)
	w.mu.Lock()
	w.sizes[runID] = size
	w.mu.Unlock()
	if cut && ctx.Err() == nil || err == nil && size > w.limits.Bytes {
		return Result{}, w.fullFailure()
	}
	return result, err
}

func (w *Workspaces) fullFailure() error {
	w.full.Inc()
	return &Failure{Code: string(run.CodeWorkspaceFull), Category: run.CategoryUser, Class: plan.ClassValidation,
		Message: fmt.Sprintf("the files of this run take more than %s in its workspace on the worker: write less, remove "+
			"files that later steps do not need, or raise workspace-max of the worker", formatBytes(w.limits.Bytes))}
}
