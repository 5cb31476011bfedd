package reads

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/durations"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/forecast"
)

// Limits of a Forecaster.
const (
	maxForecasts = 1000
	forecastLife = time.Second // how long a forecast is reused, by all its viewers
)

// Forecaster predicts when runs end. It is safe for concurrent use.
type Forecaster struct {
	views     *runs.Views
	durations *durations.Reader
	now       func() time.Time
	known     *lru.Cache[string, knownForecast]
}

type knownForecast struct {
	at   time.Time
	seq  run.Seq
	ends forecast.Forecast
}

// NewForecaster makes a Forecaster.
func NewForecaster(views *runs.Views, d *durations.Reader, now func() time.Time) *Forecaster {
	return &Forecaster{views: views, durations: d, now: now, known: control.NewLRU[knownForecast](maxForecasts)}
}

// Forecast predicts when a run ends, from its state and the ended runs of its plan. Errors: NOT_FOUND.
func (s *Forecaster) Forecast(ctx context.Context, p authz.Principal, runID string) (forecast.Forecast, error) {
	v, err := s.views.Run(ctx, p, runID, nil)
	if err != nil {
		return forecast.Forecast{}, err
	}
	out, err := s.ForecastOf(ctx, v.State)
	return out, control.Translate(err)
}

// ForecastOf predicts when a run in this state ends, at most once in forecastLife while its log does not move. It
// decides no right.
func (s *Forecaster) ForecastOf(ctx context.Context, st run.State) (forecast.Forecast, error) {
	if st.StartedAt == nil || st.Status.Terminal() {
		return forecast.Forecast{Gap: forecast.NotRunning}, nil
	}
	now := s.now()
	if k, ok := s.known.Get(st.RunID); ok && now.Sub(k.at) < forecastLife && !now.Before(k.at) &&
		(k.seq == st.Seq || len(st.Steps) > manySteps) {
		return k.ends, nil
	}
	h, err := s.durations.Before(ctx, st.Header)
	if err != nil {
		return forecast.Forecast{}, err
	}
	ends := forecast.Of(st, h, now)
	s.known.Add(st.RunID, knownForecast{at: now, seq: st.Seq, ends: ends})
	return ends, nil
}

// manySteps is the number of steps above which a forecast is reused even after the log has moved.
const manySteps = 100
