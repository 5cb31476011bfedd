package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// point is a sample of a float.
type point struct {
	t int64
	v float64
}

func (p point) T() int64                      { return p.t }
func (p point) ST() int64                     { return 0 }
func (p point) F() float64                    { return p.v }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// line is one series.
type line struct {
	labels labels.Labels
	points []chunks.Sample
}

// series is a database in memory. It implements storage.Queryable.
type series struct{ lines []*line }

// add appends a sample, in the order of time.
func (s *series) add(l labels.Labels, t time.Time, v float64) {
	for _, x := range s.lines {
		if labels.Equal(x.labels, l) {
			x.points = append(x.points, point{t.UnixMilli(), v})
			return
		}
	}
	s.lines = append(s.lines, &line{l, []chunks.Sample{point{t.UnixMilli(), v}}})
}

// Querier implements storage.Queryable.
func (s *series) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints,
		matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
		for _, x := range s.lines {
			if matches(x.labels, matchers) {
				found = append(found, storage.NewListSeries(x.labels, x.points))
			}
		}
		return &seriesSet{found: found, at: -1}
	}}, nil
}

func matches(l labels.Labels, all []*labels.Matcher) bool {
	for _, m := range all {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

type seriesSet struct {
	found []storage.Series
	at    int
}

func (s *seriesSet) Next() bool         { s.at++; return s.at < len(s.found) }
func (s *seriesSet) At() storage.Series { return s.found[s.at] }
func (s *seriesSet) Err() error         { return nil }

// Warnings implements storage.SeriesSet.
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// load reads two pages of a target in the text format. up is 1, as for every target that was scraped.
func (s *series) load(job, before, after string) error {
	type target struct {
		file       string
		from, till time.Time
	}
	for _, x := range []target{
		{before, time.Unix(0, 0), changeAt.Add(-step)}, {after, changeAt, queryAt},
	} {
		page, err := os.ReadFile(x.file)
		if err != nil {
			return err
		}
		samples, err := decode(page)
		if err != nil {
			return fmt.Errorf("%s: %w", x.file, err)
		}
		samples = append(samples, &model.Sample{Metric: model.Metric{model.MetricNameLabel: "up"}, Value: 1})
		for _, sample := range samples {
			b := labels.NewBuilder(labels.FromStrings("job", job, "instance", job))
			for name, value := range sample.Metric {
				b.Set(string(name), string(value))
			}
			l := b.Labels()
			for t := x.from; !t.After(x.till); t = t.Add(step) {
				s.add(l, t, float64(sample.Value))
			}
		}
	}
	return nil
}

func decode(page []byte) (model.Vector, error) {
	d := expfmt.NewDecoder(bytes.NewReader(page), expfmt.NewFormat(expfmt.TypeTextPlain))
	var out model.Vector
	for {
		var f dto.MetricFamily
		switch err := d.Decode(&f); err {
		case nil:
		case io.EOF:
			return out, nil
		default:
			return nil, err
		}
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, &f)
		if err != nil {
			return nil, err
		}
		out = append(out, samples...)
	}
}

// evaluator evaluates queries.
type evaluator struct{ engine *promql.Engine }

func newEngine() evaluator {
	return evaluator{promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true})}
}

// eval returns the result of an instant query as a vector.
func (e evaluator) eval(ctx context.Context, db storage.Queryable, q string, at time.Time) (promql.Vector, error) {
	x, err := e.engine.NewInstantQuery(ctx, db, promql.NewPrometheusQueryOpts(false, 0), q, at)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	res := x.Exec(ctx)
	if res.Err != nil {
		return nil, res.Err
	}
	if v, err := res.Vector(); err == nil {
		return v, nil
	}
	scalar, err := res.Scalar()
	return promql.Vector{{T: scalar.T, F: scalar.V}}, err
}
