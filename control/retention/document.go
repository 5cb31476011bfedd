// Package retention has the use cases of how long things live: the policy document of a tenant, legal holds, and the
// duty that archives and deletes what is older than the policy says.
package retention

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Document is the policy of a tenant, in days. A nil value is that of the installation; 0 keeps things for ever.
type Document struct {
	Runs RunDays `json:"runs"`
	// Artifacts are the days of artifacts by kind, counted from the end of their run.
	Artifacts   map[string]int `json:"artifacts,omitempty"`
	StepLogs    *int           `json:"stepLogs,omitempty"`    // after the end of the run
	Receipts    *int           `json:"receipts,omitempty"`    // of archived runs, after the end of the run
	DeadLetters *int           `json:"deadLetters,omitempty"` // after they were written
	Alerts      *int           `json:"alerts,omitempty"`      // after they were resolved; incidents after they were closed
	// Audit are the days of records of the audit after they were written. Those of a run stay as long as the run, those
	// that made a token, a policy or a setting for ever.
	Audit *int `json:"audit,omitempty"`
}

// RunDays are the days after the end of a run.
type RunDays struct {
	ArchiveAfterDays       *int `json:"archiveAfterDays,omitempty"`       // the events move into the archive
	DeleteArchiveAfterDays *int `json:"deleteArchiveAfterDays,omitempty"` // the run and its archive are deleted
}

const maxDays = 36_500

// KindOther is the kind in a Document that stands for artifacts of every kind that it does not name.
const KindOther = "custom"

// kinds of artifacts.
var kinds = []string{"dbt-manifest", "dbt-run-results", "log-bundle", "dataset-sample", KindOther}

// kindOf returns the kind of a Document that rules an artifact.
func kindOf(kind run.ArtifactKind) string {
	if slices.Contains(kinds, string(kind)) {
		return string(kind)
	}
	return KindOther
}

// Days are the effective values for a tenant; 0 keeps things for ever.
type Days struct {
	ArchiveRuns, DeleteArchive, StepLogs, Receipts, DeadLetters, Alerts, Audit int
	Artifacts                                                                  map[string]int
}

// Installation are the defaults of an installation.
type Installation struct {
	Document Document
	// RunsPerMinute bounds how many runs a pass archives or deletes in a minute; 0 means 600.
	RunsPerMinute int
	// Share is the share of the time in which a pass works, above 0 and at most 1; 0 means 0.05. It rests in between, so
	// that appends and lists wait for nothing but short pieces of work.
	Share        float64
	Every        time.Duration // between two passes; 0 means 1 h
	OverdueAfter time.Duration // how late a pass may be before an alert is raised; 0 means 24 h
	// DestinationsWait is how long a destination that fails holds runs back, and how much longer than the policy says a
	// run is kept for destinations; 0 means 7 days.
	DestinationsWait time.Duration
	// Cuts signs the cuts of the audit. With nil the audit is kept for ever.
	Cuts *CutSigner
}

// defaultShare is the share of the time in which a pass works.
const defaultShare = 0.05

// auditDays is the default for the audit: seven years.
const auditDays = 2557

// DefaultDocument returns the defaults of an installation: runs are archived after 90 days and their archives are kept,
// and so are the records of the audit about them. Other records of the audit are kept for seven years.
func DefaultDocument() Document {
	day := func(n int) *int { return &n }
	return Document{
		Runs: RunDays{ArchiveAfterDays: day(90), DeleteArchiveAfterDays: day(0)},
		Artifacts: map[string]int{"dbt-manifest": 90, "dbt-run-results": 90, "log-bundle": 14, "dataset-sample": 7,
			KindOther: 90},
		StepLogs: day(14), Receipts: day(90), DeadLetters: day(30), Alerts: day(90), Audit: day(auditDays),
	}
}

// KeepAll returns a document that deletes nothing.
func KeepAll() Document {
	day := func() *int { return new(int) }
	return Document{Runs: RunDays{day(), day()}, StepLogs: day(), Receipts: day(), DeadLetters: day(), Alerts: day(),
		Audit: day()}
}

// effective returns the values of doc over those of the installation.
func (i Installation) effective(doc Document) Days {
	pick := func(own, installed *int) int {
		switch {
		case own != nil:
			return *own
		case installed != nil:
			return *installed
		}
		return 0
	}
	base := i.Document
	out := Days{
		ArchiveRuns:   pick(doc.Runs.ArchiveAfterDays, base.Runs.ArchiveAfterDays),
		DeleteArchive: pick(doc.Runs.DeleteArchiveAfterDays, base.Runs.DeleteArchiveAfterDays),
		StepLogs:      pick(doc.StepLogs, base.StepLogs), Receipts: pick(doc.Receipts, base.Receipts),
		DeadLetters: pick(doc.DeadLetters, base.DeadLetters), Alerts: pick(doc.Alerts, base.Alerts),
		Audit:     pick(doc.Audit, base.Audit),
		Artifacts: map[string]int{},
	}
	maps.Copy(out.Artifacts, base.Artifacts)
	maps.Copy(out.Artifacts, doc.Artifacts)
	return out
}

// check returns all violations of a document of a tenant.
func (i Installation) check(doc Document) (vs []plan.Violation) {
	bad := func(path, format string, args ...any) {
		vs = append(vs, plan.Violation{Path: "retention." + path, Code: "RANGE", Message: fmt.Sprintf(format, args...)})
	}
	in := func(path string, days *int) {
		if days != nil && (*days < 0 || *days > maxDays) {
			bad(path, "must be from 0 to %d days", maxDays)
		}
	}
	in("runs.archiveAfterDays", doc.Runs.ArchiveAfterDays)
	in("runs.deleteArchiveAfterDays", doc.Runs.DeleteArchiveAfterDays)
	in("stepLogs", doc.StepLogs)
	in("receipts", doc.Receipts)
	in("deadLetters", doc.DeadLetters)
	in("alerts", doc.Alerts)
	if text := checkAudit(doc.Audit); text != "" {
		bad("audit", "%s", text)
	}
	for _, kind := range slices.Sorted(maps.Keys(doc.Artifacts)) {
		if !slices.Contains(kinds, kind) {
			vs = append(vs, plan.Violation{Path: "retention.artifacts", Code: "UNKNOWN",
				Message: fmt.Sprintf("%q is not a kind of artifacts: use one of %s", control.Clip(kind),
					strings.Join(kinds, ", "))})
			continue
		}
		days := doc.Artifacts[kind]
		in("artifacts."+kind, &days)
	}
	if d := i.effective(doc); len(vs) == 0 && d.DeleteArchive > 0 && d.ArchiveRuns == 0 {
		bad("runs.deleteArchiveAfterDays", "needs archiveAfterDays, because only archived runs are deleted")
	} else if len(vs) == 0 && d.DeleteArchive > 0 && d.DeleteArchive <= d.ArchiveRuns {
		bad("runs.deleteArchiveAfterDays", "must be more than the %d days after which runs are archived", d.ArchiveRuns)
	}
	return vs
}

// Check returns the first violation of the defaults of an installation as an error, or nil.
func (i Installation) Check() error {
	if vs := (Installation{}).check(i.Document); len(vs) > 0 {
		return fmt.Errorf("%s %s", vs[0].Path, vs[0].Message)
	}
	if i.RunsPerMinute < 0 {
		return fmt.Errorf("retention.runsPerMinute must not be below 0")
	}
	if i.Share < 0 || i.Share > 1 {
		return fmt.Errorf("retention.share must be above 0 and at most 1, such as 0.1")
	}
	return nil
}

// lines returns a line for each effective value of a document.
func (i Installation) lines(doc Document) []string {
	d := i.effective(doc)
	line := func(what string, own *int, days int) string {
		words := "for ever"
		if days > 0 {
			words = fmt.Sprintf("%d days", days)
		}
		if own == nil {
			words += " (of the installation)"
		}
		return what + ": " + words
	}
	out := []string{
		line("runs are archived after", doc.Runs.ArchiveAfterDays, d.ArchiveRuns),
		line("archives are deleted after", doc.Runs.DeleteArchiveAfterDays, d.DeleteArchive),
		line("step logs", doc.StepLogs, d.StepLogs), line("receipts", doc.Receipts, d.Receipts),
		line("dead letters", doc.DeadLetters, d.DeadLetters), line("alerts", doc.Alerts, d.Alerts),
		line("audit", doc.Audit, d.Audit),
	}
	for _, kind := range kinds {
		var own *int
		if days, ok := doc.Artifacts[kind]; ok {
			own = &days
		}
		out = append(out, line("artifacts of kind "+kind, own, d.Artifacts[kind]))
	}
	return out
}

// before returns the time before which things are old; zero when they are kept for ever.
func before(now time.Time, days int) time.Time {
	if days <= 0 {
		return time.Time{}
	}
	return now.AddDate(0, 0, -days)
}
