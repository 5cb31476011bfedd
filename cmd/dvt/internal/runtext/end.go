package runtext

import (
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/client"
)

// End says when a run is expected to end and when it should end, in one line; "" when nothing is known.
func End(of *client.ShowRunRun, when func(*time.Time) string) string {
	due, isDue := "", false
	if of.Deadline != nil && of.Late != nil { // the server decides, so that its clock and rules are the only ones
		switch *of.Late {
		case client.RunLatenessDue:
			due, isDue = "due "+when(of.Deadline), true
		case client.RunLatenessMet:
			due = "ended in time, due " + when(of.Deadline)
		case client.RunLatenessLate, client.RunLatenessMissed, client.RunLatenessUnknown:
			due = "was due " + when(of.Deadline)
		}
	}
	ends := ""
	if f := of.Forecast; f != nil {
		ends = fmt.Sprintf("ends about %s (%s to %s, by %d runs)", when(&f.ExpectedEnd), when(&f.Low), when(&f.High),
			f.Runs)
		if f.Basis == client.ForecastBasisSimilarSteps {
			ends += ", with steps that are new in the plan"
		}
		if isDue && f.Low.After(*of.Deadline) {
			due += ", will probably be late"
		}
	} else if g := of.ForecastGap; g != nil {
		ends = whyNoForecast(*g)
	}
	if ends != "" && due != "" {
		return ends + "; " + due
	}
	return ends + due
}

// whyNoForecast returns nothing for what the state of the run says by itself.
func whyNoForecast(g client.RunEndGap) string {
	switch g.Reason {
	case client.ForecastGapReasonTooFewRuns:
		return fmt.Sprintf("no forecast yet: %d of %d runs", g.Runs, g.Needed)
	case client.ForecastGapReasonWaitsForPerson:
		return "no forecast: step " + Deref(g.StepId) + " waits for a person"
	case client.ForecastGapReasonUnknownSteps:
		return "no forecast: step " + Deref(g.StepId) + " is new and like no earlier one"
	}
	return ""
}
