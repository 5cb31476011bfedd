package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/postgres"
)

func BenchmarkLone(b *testing.B) {
	ctx := context.Background()
	dsn := testserver.Postgres(b)
	s, err := postgres.Open(ctx, dsn, postgres.Options{Migrate: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	create(b, s, "r1")
	c := connect(b, dsn)
	if _, err := c.Exec(ctx, `CREATE TABLE raw (LIKE event INCLUDING ALL)`); err != nil {
		b.Fatal(err)
	}
	var ours, raw []time.Duration
	n := 0
	for b.Loop() {
		n++
		began := time.Now()
		if _, err := appendTo(ctx, s, "r1", started(fmt.Sprint("s", n), 1)); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(began))
		began = time.Now()
		if _, err := c.Exec(ctx, `INSERT INTO raw VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13)`, "r1", n, fmt.Sprint("id", n), fmt.Sprint("key", n), run.StepStartedEvent, fmt.Sprint("s", n), "", 1, 1, time.Now(), time.Now(), "engine", "{}"); err != nil {
			b.Fatal(err)
		}
		raw = append(raw, time.Since(began))
	}
	slices.Sort(ours)
	slices.Sort(raw)
	b.ReportMetric(float64(ours[len(ours)/2].Microseconds()), "p50us")
	b.ReportMetric(float64(raw[len(raw)/2].Microseconds()), "rawp50us")
	b.ReportMetric(float64(ours[len(ours)/2])/float64(raw[len(raw)/2]), "ratio")
}
