package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// A repeated append returns the stored event, so writers may retry.
func Example_append() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "dvt")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := sqlite.Open(ctx, filepath.Join(dir, "dvt.db"), sqlite.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	id := run.Identity{TenantID: "acme", ProjectID: "shop", EnvironmentID: "prod", RunID: "r-1", PlanID: "nightly",
		PlanVersion: "1.0"}
	approved := run.Draft{Type: run.RunApproved, LogicalAttempt: 1, EngineAttempt: 1, EmittedBy: run.ByPlanner,
		EmittedAt: time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)}
	if _, _, err := s.CreateRun(ctx, store.NewRun{
		Run: store.Run{Identity: id, RequestKey: "request 1"}, Events: []run.Draft{approved},
	}); err != nil {
		fmt.Println(err)
		return
	}
	again, err := s.Append(ctx, store.Append{RunID: id.RunID, Events: []run.Draft{approved}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Outcomes[0].Seq, again.Outcomes[0].Deduplicated, again.Head.LastSeq)
	// Output: 1 true 1
}

// The signal of a bulk's row has the same id whenever a server sends it, so that it has one effect.
func ExampleBulkSignalID() {
	fmt.Println(store.BulkSignalID("b7", 3))
	// Output: bulk.b7.3
}
