package plan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

func TestDeadlineDue_IsTheNextTimeInItsZone(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		out, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, tc := range []struct {
		name, created, want string
		d                   plan.Deadline
	}{
		{"the same day", "2026-03-01T02:00:00Z", "2026-03-01T05:00:00Z", plan.Deadline{By: "06:00", Zone: "Europe/Zurich"}},
		{"the next day", "2026-03-01T05:00:00Z", "2026-03-02T05:00:00Z", plan.Deadline{By: "06:00", Zone: "Europe/Zurich"}},
		{"after the clocks went forward", "2026-03-28T20:00:00Z", "2026-03-29T04:00:00Z",
			plan.Deadline{By: "06:00", Zone: "Europe/Zurich"}},
		{"at a time that the clocks leave out", "2026-03-28T20:00:00Z", "2026-03-29T01:30:00Z",
			plan.Deadline{By: "02:30", Zone: "Europe/Zurich"}},
		{"after the start", "2026-03-01T02:00:00Z", "2026-03-01T04:30:00Z", plan.Deadline{Within: 2 * time.Hour}},
	} {
		created := at(tc.created)
		if got := tc.d.Due(created, created.Add(30*time.Minute)); !got.Equal(at(tc.want)) {
			t.Errorf("%s: due at %s, want %s", tc.name, got.Format(time.RFC3339), tc.want)
		}
	}
}

func TestParse_Deadline(t *testing.T) {
	t.Parallel()
	const doc = `{"schemaVersion":"v1.2","metadata":{"planId":"p","planVersion":"1","createdAt":"2026-03-01T00:00:00Z",
		"createdBy":"x","schemaVersion":"v1.2","deadline":DEADLINE},
		"scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev","repoSha":"abc"},
		"steps":[{"stepId":"s1","type":"NOOP","inputs":{},"timeout":"1m"}]}`
	for deadline, want := range map[string]string{
		`{"by":"06:00","zone":"Europe/Zurich"}`:     "",
		`{"within":"2h"}`:                           "",
		`{"by":"6:00","zone":"UTC"}`:                "metadata.deadline.by",
		`{"by":"24:00","zone":"UTC"}`:               "metadata.deadline.by",
		`{"by":"06:00"}`:                            "metadata.deadline.zone",
		`{"by":"06:00","zone":"Local"}`:             "metadata.deadline.zone",
		`{"by":"06:00","zone":"../../etc/passwd"}`:  "metadata.deadline.zone",
		`{"by":"06:00","zone":"UTC","within":"2h"}`: "metadata.deadline",
		`{"within":"2h","zone":"UTC"}`:              "metadata.deadline.zone",
		`{}`:                                        "metadata.deadline",
		`{"within":"2h","until":1}`:                 "metadata.deadline.until",
	} {
		p, err := plan.Parse([]byte(strings.Replace(doc, "DEADLINE", deadline, 1)), plan.Queues{})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", deadline, err)
		case want == "":
			again, err := json.Marshal(p.Metadata.Deadline)
			if err != nil || string(again) != deadline {
				t.Errorf("%s is written as %s, %v", deadline, again, err)
			}
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s is answered with %v, want a violation at %s", deadline, err, want)
		}
	}
}
