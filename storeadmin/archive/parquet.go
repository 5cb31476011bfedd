package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The names of the objects beside that of a run's log differ from it in their endings.
const (
	logEnding      = ".ndjson.gz"
	eventsEnding   = ".events.parquet"
	runEnding      = ".run.parquet"
	manifestEnding = ".manifest.json"
	tableBatch     = 500 // events that are read and written at once
)

// EventRow is a row of the table of events: one event of an archived run.
type EventRow struct {
	TenantID       string    `parquet:"tenant_id,dict"`
	ProjectID      string    `parquet:"project_id,dict"`
	EnvironmentID  string    `parquet:"environment_id,dict"`
	RunID          string    `parquet:"run_id,dict"`
	RunSeq         int64     `parquet:"run_seq"`
	EventID        string    `parquet:"event_id"`
	EventType      string    `parquet:"event_type,dict"`
	StepID         *string   `parquet:"step_id,optional,dict"`
	LogicalAttempt int32     `parquet:"logical_attempt"`
	EngineAttempt  int32     `parquet:"engine_attempt"`
	EmittedAt      time.Time `parquet:"emitted_at,timestamp(microsecond)"`
	PersistedAt    time.Time `parquet:"persisted_at,timestamp(microsecond)"`
	EmittedBy      string    `parquet:"emitted_by,dict"`
	Payload        *string   `parquet:"payload,optional"` // JSON text
}

// RunRow is a row of the table of runs.
type RunRow struct {
	TenantID      string    `parquet:"tenant_id"`
	ProjectID     string    `parquet:"project_id"`
	EnvironmentID string    `parquet:"environment_id"`
	RunID         string    `parquet:"run_id"`
	PlanID        string    `parquet:"plan_id"`
	PlanVersion   string    `parquet:"plan_version"`
	PlanSHA256    string    `parquet:"plan_sha256"`
	TriggeredBy   string    `parquet:"triggered_by"`
	ParentRunID   *string   `parquet:"parent_run_id,optional"`
	CreatedAt     time.Time `parquet:"created_at,timestamp(microsecond)"`
	EndedAt       time.Time `parquet:"ended_at,timestamp(microsecond)"`
	Status        string    `parquet:"status"`
	Events        int64     `parquet:"events"`
}

// Manifest names the objects of an archived run with their hashes.
type Manifest struct {
	TenantID string           `json:"tenantId"`
	RunID    string           `json:"runId"`
	Events   int64            `json:"events"`
	Objects  []ManifestObject `json:"objects"`
}

// ManifestObject is an object of an archived run.
type ManifestObject struct {
	Name      string `json:"name"` // in the archive
	SHA256    string `json:"sha256"`
	SizeBytes int64  `json:"sizeBytes"`
}

// besides returns the names of the objects beside the log of an archived run.
func besides(location string) []string {
	stem := strings.TrimSuffix(location, logEnding)
	return []string{stem + eventsEnding, stem + runEnding, stem + manifestEnding}
}

// Writers of tables keep their memory, some megabytes, for the next run.
//
//nolint:gochecknoglobals // pools
var (
	eventTables = sync.Pool{New: func() any {
		return parquet.NewGenericWriter[EventRow](io.Discard, parquet.Compression(&parquet.Zstd))
	}}
	runTables = sync.Pool{New: func() any {
		return parquet.NewGenericWriter[RunRow](io.Discard, parquet.Compression(&parquet.Zstd))
	}}
)

// writeTables writes the tables and the manifest of a run whose log is in the archive. They are copies for programs
// that read Parquet: dvt reads only the log.
func writeTables(ctx context.Context, s store.Store, to Objects, r store.Run, a store.ArchivedRun) error {
	m := Manifest{TenantID: a.TenantID, RunID: a.RunID, Events: a.Events,
		Objects: []ManifestObject{{Name: a.Location, SHA256: a.SHA256, SizeBytes: a.Bytes}}}
	names := besides(a.Location)
	row := RunRow{TenantID: r.TenantID, ProjectID: r.ProjectID, EnvironmentID: r.EnvironmentID, RunID: r.RunID,
		PlanID: r.PlanID, PlanVersion: r.PlanVersion, PlanSHA256: r.PlanRef.SHA256, TriggeredBy: r.TriggeredBy,
		ParentRunID: optional(r.ParentRunID), CreatedAt: r.CreatedAt.UTC(), Events: a.Events}
	err := putTable(ctx, to, names[0], &m, func(file io.Writer) error {
		w, _ := eventTables.Get().(*parquet.GenericWriter[EventRow])
		w.Reset(file)
		for after := run.Seq(0); after < a.Head; {
			events, err := s.Events(ctx, a.RunID, after, tableBatch)
			if err != nil {
				return err
			}
			if len(events) == 0 {
				return fmt.Errorf("archive: the log of run %s ends at %d before %d", a.RunID, after, a.Head)
			}
			rows := make([]EventRow, 0, len(events))
			for _, e := range events {
				if e.Seq > a.Head {
					break
				}
				rows = append(rows, eventRow(e))
			}
			if _, err := w.Write(rows); err != nil {
				return fmt.Errorf("archive: %w", err)
			}
			last := events[len(events)-1]
			after, row.EndedAt = last.Seq, last.PersistedAt.UTC()
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		eventTables.Put(w)
		return nil
	})
	if err != nil {
		return err
	}
	l, err := s.Load(ctx, a.RunID)
	if err != nil {
		return err
	}
	row.Status = string(l.State.Status)
	err = putTable(ctx, to, names[1], &m, func(file io.Writer) error {
		w, _ := runTables.Get().(*parquet.GenericWriter[RunRow])
		w.Reset(file)
		if _, err := w.Write([]RunRow{row}); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		runTables.Put(w)
		return nil
	})
	if err != nil {
		return err
	}
	doc, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return put(ctx, to, names[2], strings.NewReader(string(doc)+"\n"))
}

// putTable writes a table to a file, stores it as an object and adds it to the manifest.
func putTable(ctx context.Context, to Objects, name string, m *Manifest, write func(io.Writer) error) error {
	spool, err := os.CreateTemp("", "dvt-archive-*")
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	defer func() { _, _ = spool.Close(), os.Remove(spool.Name()) }()
	sum, size := sha256.New(), &sizer{}
	if err := write(io.MultiWriter(spool, sum, size)); err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	m.Objects = append(m.Objects, ManifestObject{Name: name, SHA256: hex.EncodeToString(sum.Sum(nil)),
		SizeBytes: size.n})
	return put(ctx, to, name, spool)
}

func eventRow(e run.Event) EventRow {
	return EventRow{TenantID: e.TenantID, ProjectID: e.ProjectID, EnvironmentID: e.EnvironmentID, RunID: e.RunID,
		RunSeq: int64(e.Seq), EventID: e.EventID, EventType: string(e.Type), StepID: optional(e.StepID),
		LogicalAttempt: int32(e.LogicalAttempt), EngineAttempt: int32(e.EngineAttempt), EmittedAt: e.EmittedAt.UTC(),
		PersistedAt: e.PersistedAt.UTC(), EmittedBy: string(e.EmittedBy), Payload: optional(string(e.Payload))}
}

// optional returns nil for an empty text.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
