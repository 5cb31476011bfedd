package plan

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// The binary form of a Skeleton (contract T195): one byte of version, then deflated
//
//	header   planId, planVersion, retry window + 1 (0: none), cancelRunning
//	profiles count, then each distinct (type, timeout, retry, queue, flags, and by flag
//	         the timeout of a wait, the queue, the timeout and the type of a compensation)
//	ids      count, then the ids, each as shared prefix with the one before and the rest
//	columns  the profile of each step; its number of deps; each dep as distance back
//
// in varints. The form is compact because the steps of a real plan share a few profiles and long prefixes.
const (
	skeletonVersion  = 1
	maxSkeletonBytes = 16 << 20 // inflated; more than the skeleton of any plan that Parse accepts
)

var errSkeleton = errors.New("plan: not a skeleton")

const (
	flagHeavy = 1 << iota
	flagCancellable
	flagAllowCancelOnPause
	flagWaitTimeout      // the timeout of a wait follows
	flagCompensation     // queue and timeout of a compensation follow
	flagCompensationType // the type of the compensation follows

	allFlags = 1<<iota - 1
)

// MarshalBinary returns the compact form, which has at most 32 bytes per step for a plan with realistic names. Equal
// skeletons have equal bytes. It fails only for a dependency that is not an ordinal of a step.
func (s Skeleton) MarshalBinary() ([]byte, error) {
	var e encoder
	e.text(s.PlanID)
	e.text(s.PlanVersion)
	window := 0
	if w := s.FailurePolicy.RetryWindowSeconds; w != nil {
		window = *w + 1
	}
	e.int(window)
	e.bool(s.FailurePolicy.CancelRunning)

	of := make([]int, len(s.Steps))
	index := map[string]int{}
	var profiles []string
	for i, step := range s.Steps {
		var p encoder
		p.profile(step)
		n, known := index[string(p.b)]
		if !known {
			n = len(profiles)
			index[string(p.b)] = n
			profiles = append(profiles, string(p.b))
		}
		of[i] = n
	}
	e.int(len(profiles))
	for _, p := range profiles {
		e.b = append(e.b, p...)
	}
	e.int(len(s.Steps))
	last := ""
	for _, step := range s.Steps {
		shared := 0
		for shared < min(len(last), len(step.StepID)) && last[shared] == step.StepID[shared] {
			shared++
		}
		e.int(shared)
		e.text(step.StepID[shared:])
		last = step.StepID
	}
	for _, n := range of {
		e.int(n)
	}
	for _, step := range s.Steps {
		e.int(len(step.Deps))
	}
	for i, step := range s.Steps {
		for _, d := range step.Deps {
			if d < 0 || d >= len(s.Steps) {
				return nil, fmt.Errorf("plan: step %s depends on ordinal %d of %d", formatID(step.StepID), d, len(s.Steps))
			}
			e.b = binary.AppendVarint(e.b, int64(i-d))
		}
	}
	return deflate(e.b)
}

func deflate(b []byte) ([]byte, error) {
	out := bytes.NewBuffer([]byte{skeletonVersion})
	w, err := flate.NewWriter(out, flate.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("plan: deflate: %w", err)
	}
	if _, err := w.Write(b); err != nil {
		return nil, fmt.Errorf("plan: deflate: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("plan: deflate: %w", err)
	}
	return out.Bytes(), nil
}

// UnmarshalBinary reads the output of MarshalBinary. For other bytes it returns an error; it never panics and needs no
// more memory than the largest plan.
func (s *Skeleton) UnmarshalBinary(data []byte) error {
	if len(data) == 0 || data[0] != skeletonVersion {
		return fmt.Errorf("%w of version %d", errSkeleton, skeletonVersion)
	}
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data[1:])), maxSkeletonBytes+1))
	if err != nil || len(raw) > maxSkeletonBytes {
		return fmt.Errorf("%w: damaged or too large", errSkeleton)
	}
	d := decoder{b: raw}
	got := d.skeleton()
	if d.bad || len(d.b) > 0 {
		return fmt.Errorf("%w: damaged", errSkeleton)
	}
	*s = got
	return nil
}

type encoder struct{ b []byte }

func (e *encoder) int(n int)     { e.b = binary.AppendUvarint(e.b, uint64(n)) }
func (e *encoder) text(s string) { e.int(len(s)); e.b = append(e.b, s...) }

func (e *encoder) bool(v bool) {
	n := 0
	if v {
		n = 1
	}
	e.int(n)
}

func (e *encoder) profile(s SkeletonStep) {
	e.text(string(s.Type))
	e.b = binary.AppendUvarint(e.b, uint64(s.Timeout))
	e.int(s.Retry.MaxAttempts)
	e.int(s.Retry.InitialBackoffMS)
	e.b = binary.LittleEndian.AppendUint64(e.b, math.Float64bits(s.Retry.BackoffMultiplier))
	e.int(s.Retry.MaxBackoffMS)
	e.int(len(s.Retry.RetryableErrors))
	for _, class := range s.Retry.RetryableErrors {
		e.text(class)
	}
	e.text(s.TaskQueue)
	set := 0
	for _, f := range []struct {
		flag int
		on   bool
	}{
		{flagHeavy, s.Heavy}, {flagCancellable, s.Cancellable}, {flagAllowCancelOnPause, s.AllowCancelOnPause},
		{flagWaitTimeout, s.WaitTimeout != 0}, {flagCompensation, s.CompensationQueue != ""},
		{flagCompensationType, s.CompensationQueue != "" && s.CompensationType != ""},
	} {
		if f.on {
			set |= f.flag
		}
	}
	e.int(set)
	if s.WaitTimeout != 0 {
		e.b = binary.AppendUvarint(e.b, uint64(s.WaitTimeout))
	}
	if s.CompensationQueue != "" {
		e.text(s.CompensationQueue)
		e.b = binary.AppendUvarint(e.b, uint64(s.CompensationTimeout))
		if s.CompensationType != "" {
			e.text(string(s.CompensationType))
		}
	}
}

// decoder reads the fields of a skeleton. The first invalid field sets bad; from then on every method returns the zero
// value.
type decoder struct {
	b   []byte
	bad bool
}

// int reads a number of at most limit.
func (d *decoder) int(limit int) int { return int(d.uint(uint64(limit))) }

func (d *decoder) uint(limit uint64) uint64 {
	n, size := binary.Uvarint(d.b)
	if d.bad || size <= 0 || n > limit {
		d.bad = true
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) text() string {
	n := d.int(len(d.b))
	if d.bad || n > len(d.b) {
		d.bad = true
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) float() float64 {
	if d.bad || len(d.b) < 8 {
		d.bad = true
		return 0
	}
	bits := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return math.Float64frombits(bits)
}

func (d *decoder) skeleton() Skeleton {
	s := Skeleton{PlanID: d.text(), PlanVersion: d.text()}
	if window := d.int(maxRetryWindowSeconds + 1); window > 0 {
		window--
		s.FailurePolicy.RetryWindowSeconds = &window
	}
	s.FailurePolicy.CancelRunning = d.int(1) == 1
	profiles := make([]SkeletonStep, d.int(MaxSteps))
	for i := range profiles {
		profiles[i] = d.profile()
	}
	ids := make([]string, d.int(MaxSteps))
	seen := make(map[string]bool, len(ids))
	last := ""
	for i := range ids {
		shared := d.int(len(last))
		last = last[:shared] + d.text()
		if d.bad || seen[last] || !idPattern.MatchString(last) {
			d.bad = true
			return s
		}
		seen[last], ids[i] = true, last
	}
	s.Steps = make([]SkeletonStep, len(ids))
	for i := range s.Steps {
		n := d.int(len(profiles))
		if d.bad || n == len(profiles) {
			d.bad = true
			return s
		}
		s.Steps[i] = profiles[n]
		s.Steps[i].StepID = ids[i]
	}
	d.deps(s.Steps)
	return s
}

func (d *decoder) profile() SkeletonStep {
	s := SkeletonStep{Type: StepType(d.text()), Timeout: time.Duration(d.uint(uint64(MaxTimeout)))}
	s.Retry.MaxAttempts = d.int(maxAttempts)
	s.Retry.InitialBackoffMS = d.int(maxBackoffMS)
	s.Retry.BackoffMultiplier = d.float()
	d.bad = d.bad || !(s.Retry.BackoffMultiplier >= 0 && s.Retry.BackoffMultiplier <= maxMultiplier)
	s.Retry.MaxBackoffMS = d.int(maxBackoffMS)
	for range d.int(len(errorClasses())) {
		s.Retry.RetryableErrors = append(s.Retry.RetryableErrors, d.text())
	}
	s.TaskQueue = d.text()
	set := d.int(allFlags)
	s.Heavy = set&flagHeavy != 0
	s.Cancellable = set&flagCancellable != 0
	s.AllowCancelOnPause = set&flagAllowCancelOnPause != 0
	if set&flagWaitTimeout != 0 {
		s.WaitTimeout = time.Duration(d.uint(uint64(MaxTimeout)))
		d.bad = d.bad || s.WaitTimeout == 0
	}
	if set&flagCompensation != 0 {
		s.CompensationQueue = d.text()
		s.CompensationTimeout = time.Duration(d.uint(uint64(MaxTimeout)))
		d.bad = d.bad || s.CompensationQueue == ""
	}
	if set&flagCompensationType != 0 {
		s.CompensationType = StepType(d.text())
		d.bad = d.bad || s.CompensationType == "" || set&flagCompensation == 0
	}
	return s
}

// deps reads the dependencies of every step. They must be ascending ordinals without the step itself.
func (d *decoder) deps(steps []SkeletonStep) {
	counts := make([]int, len(steps))
	for i := range counts {
		counts[i] = d.int(len(d.b))
	}
	for i, n := range counts {
		if d.bad || n > len(d.b) {
			d.bad = true
			return
		}
		if n == 0 {
			continue
		}
		deps := make([]int, n)
		for k := range deps {
			back, size := binary.Varint(d.b)
			on := int64(i) - back
			if size <= 0 || back == 0 || on < 0 || on >= int64(len(steps)) || k > 0 && int(on) <= deps[k-1] {
				d.bad = true
				return
			}
			d.b = d.b[size:]
			deps[k] = int(on)
		}
		steps[i].Deps = deps
	}
}
