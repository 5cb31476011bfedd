package temporal

import "time"

// RunWorkflow is what workers run, for tests that replay it changed.
var RunWorkflow = (&workflows{meter: newMeter(time.Now)}).run

const WorkflowName = workflowName

// Most is what a meter offers of readings {unix seconds, bytes, steps}.
func Most(now func() time.Time, readings map[string][3]int64) (size, steps int) {
	m := newMeter(now)
	for id, r := range readings {
		m.observe(id, reading{at: time.Unix(r[0], 0), size: int(r[1]), steps: int(r[2])})
	}
	return m.most()
}
