package rig

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// samples returns one sample for each cost, with a floor of 2 ms.
func samples(costs ...time.Duration) []Sample {
	out := make([]Sample, len(costs))
	for i, c := range costs {
		out[i] = Sample{Cost: c, Floor: 2 * time.Millisecond}
	}
	return out
}

func TestLine_SaysWhetherTheMedianMeetsTheGoal(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		goal    Goal
		samples []Sample
		want    string
	}{
		{AtMost(1.5), samples(9*ms, 3*ms, 2*ms), "ok f ratio 1.50 goal <= 1.50 floor 2ms spread 1.00-4.50 (w)"},
		{AtMost(1.4), samples(9*ms, 3*ms, 2*ms), "short f ratio 1.50 goal <= 1.40 floor 2ms spread 1.00-4.50 (w)"},
		{AtLeast(4), samples(ms/4, ms/2, ms), "ok f ratio 4.00 goal >= 4.00 floor 2ms spread 2.00-8.00 (w)"},
		{AtLeast(4.1), samples(ms/4, ms/2, ms), "short f ratio 4.00 goal >= 4.10 floor 2ms spread 2.00-8.00 (w)"},
		{Within(3 * ms).Named("g"), samples(4*ms, 3*ms, ms), "ok g time 3ms goal <= 3ms floor 2ms spread 1ms-4ms (w)"},
		{AtMost(0.02), samples(
			ms/20, ms/10, ms/100), "short f ratio 0.0250 goal <= 0.0200 floor 2ms spread 0.0050-0.0500 (w)"},
		{Within(2 * ms), samples(4*ms, 3*ms, ms), "short f time 3ms goal <= 2ms floor 2ms spread 1ms-4ms (w)"},
	} {
		got := strings.Join(strings.Fields(Figure{Name: "f", What: "w"}.line(c.goal, c.samples)), " ")
		if got != c.want {
			t.Errorf("line is\n%s, want\n%s", got, c.want)
		}
	}
}

func TestLine_PrintsNumbersWithTheUnitOfTheFigure(t *testing.T) {
	t.Parallel()
	f := Figure{Name: "f", What: "w", Unit: "bytes"}
	got := strings.Join(strings.Fields(f.line(Within(12*1024), []Sample{{9000, 20000}, {9100, 20000}, {20000, 20000}})),
		" ")
	want := "ok f count 9100 bytes goal <= 12288 bytes floor 20000 bytes spread 9000 bytes-20000 bytes (w)"
	if got != want {
		t.Errorf("line is\n%s, want\n%s", got, want)
	}
}

func TestMeasure_RepeatsAndReturnsErrors(t *testing.T) {
	t.Parallel()
	broken, calls := errors.New("broken"), 0
	f := Figure{Name: "f", What: "w", Goals: []Goal{AtMost(1), Within(time.Second)}}
	f.Setup = func(context.Context, *Rig) (*Trial, error) {
		return &Trial{Repeat: func(context.Context) (Sample, error) { calls++; return Sample{1, 1}, nil }}, nil
	}
	lines, err := f.Measure(t.Context(), nil)
	if err != nil || len(lines) != len(f.Goals) || calls != repetitions {
		t.Errorf("Measure returned %d lines and error %v after %d repetitions, want %d lines, nil and %d", len(lines), err,
			calls, len(f.Goals), repetitions)
	}
	f.Setup = func(context.Context, *Rig) (*Trial, error) {
		return &Trial{Repeat: func(context.Context) (Sample, error) { return Sample{}, broken }}, nil
	}
	if _, err := f.Measure(t.Context(), nil); !errors.Is(err, broken) {
		t.Errorf("Measure returned error %v, want that of the repetition", err)
	}
}

// A pair that is disturbed, and a machine that becomes slower, do not move the result.
func TestPairs_TakesTheMedianOfTheRatios(t *testing.T) {
	t.Parallel()
	var order []string
	speed := time.Second
	measure := func(name string, factor float64) Measure {
		return func(_ context.Context, i int) (time.Duration, error) {
			order = append(order, name)
			speed += time.Millisecond // drift
			if i == 1 && name == "cost" {
				return time.Hour, nil
			}
			return seconds(speed.Seconds() * factor), nil
		}
	}
	s, err := Pairs(4, measure("cost", 1.1), measure("floor", 1))(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Cost.Seconds() / s.Floor.Seconds(); r < 1.095 || r > 1.105 {
		t.Errorf("the ratio is %.3f, want 1.10", r)
	}
	if got := strings.Join(order, " "); got != "floor cost cost floor floor cost cost floor" {
		t.Errorf("the order is %s, want pairs in turn", got)
	}
}

func TestQuantile_IsRightForFewAndManyDurations(t *testing.T) {
	t.Parallel()
	many := make([]time.Duration, 1000)
	for i := range many {
		many[i] = time.Duration(999 - i)
	}
	for _, c := range []struct {
		took []time.Duration
		q    float64
		want time.Duration
	}{{[]time.Duration{7}, 0.99, 7}, {[]time.Duration{3, 1, 2}, 0.5, 2}, {many, 0.99, 990}, {many, 0.5, 500}} {
		if got := Quantile(c.took, c.q); got != c.want {
			t.Errorf("quantile %.2f of %d durations is %d, want %d", c.q, len(c.took), got, c.want)
		}
	}
}
