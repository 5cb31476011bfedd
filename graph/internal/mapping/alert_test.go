package mapping_test

import (
	"testing"

	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/mapping"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func TestAlert_LinksThePageThatShowsMore(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]store.Alert{
		"/deliveries/on-call": {Code: run.CodeDestinationFailing, Subject: "on-call"},
		"/deliveries":         {Code: run.CodeDestinationsInvalid, Subject: "destinations"},
		"/dlq":                {Code: run.CodeDeliveryFailed, RunID: "r1"},
		"/health":             {Code: run.CodeWorkerAbsent},
		"/runs/r1?step=s1":    {Code: run.CodeStepStuck, RunID: "r1", StepID: "s1"},
	} {
		if got := mapping.Alert(reads.Alert{AlertState: store.AlertState{Alert: a}}).Page; got != want {
			t.Errorf("the page of an alert %s is %s, want %s", a.Code, got, want)
		}
	}
}
