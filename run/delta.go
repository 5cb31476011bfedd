package run

import "slices"

// Since returns what changed in s after w: the absolute header and every step
// whose ChangedSeq is above w (T188, T212). Since(0) is the whole state.
func (s State) Since(w Seq) Delta {
	d := Delta{From: w, To: s.Seq, Header: s.Header}
	for _, step := range s.Steps {
		if step.ChangedSeq > w {
			d.Steps = append(d.Steps, step)
		}
	}
	return d
}

// Apply brings s to d.To when d covers all that is missing, so d.From <= s.Seq <
// d.To; overlaps, repetitions and a needlessly low From are harmless (T188). Old
// is a delta that ends at or before s.Seq. Gap is one that begins after it, or
// that is of another run or lacks steps; then s is returned as it is. Neither s
// nor d is changed; the result shares their steps. Whether d is of the same
// store epoch and reducer revision is the caller's to know.
func (s State) Apply(d Delta) (State, Verdict) {
	switch {
	case s.RunID != "" && d.Header.RunID != s.RunID:
		return s, Gap
	case d.To <= s.Seq:
		return s, Old
	case d.From > s.Seq:
		return s, Gap
	}
	total := d.Header.Counts.Total
	steps := slices.Clone(s.Steps)
	for _, step := range d.Steps {
		if step == nil || step.Ord < 0 || int(step.Ord) >= total {
			return s, Gap
		}
		if grow := int(step.Ord) + 1 - len(steps); grow > 0 {
			steps = append(steps, make([]*Step, grow)...)
		}
		steps[step.Ord] = step
	}
	if len(steps) != total || slices.Contains(steps, nil) {
		return s, Gap
	}
	return State{Header: d.Header, Steps: steps}, Applied
}
