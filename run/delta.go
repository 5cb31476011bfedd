package run

import "slices"

// Since returns the changes of s after w: the complete header and every step with ChangedSeq above w (contract T188,
// T212). Since(0) is the whole state.
func (s State) Since(w Seq) Delta {
	d := Delta{From: w, To: s.Seq, Header: s.Header}
	for _, step := range s.Steps {
		if step.ChangedSeq > w {
			d.Steps = append(d.Steps, step)
		}
	}
	return d
}

// Apply moves s to d.To if d covers everything that is missing: d.From <= s.Seq < d.To. Overlaps, repetitions and a
// lower From than necessary do no harm (contract T188). Old means that d ends at or before s.Seq. Gap means that d
// starts after it, belongs to another run or lacks steps; the result is then s. Neither s nor d is changed; the
// result shares their steps. The caller must ensure that d has the same store epoch and reducer revision.
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
