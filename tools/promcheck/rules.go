package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// rules are the groups of a file, in its order.
type rules struct{ groups []rulefmt.RuleGroup }

func (r rules) all() (out []rulefmt.Rule) {
	for _, g := range r.groups {
		out = append(out, g.Rules...)
	}
	return out
}

// readRules parses a file as Prometheus does when it starts.
func readRules(file string) (rules, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return rules{}, err
	}
	parsed, errs := rulefmt.Parse(b, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return rules{}, errors.Join(errs...)
	}
	seen := map[string]bool{}
	for _, g := range parsed.Groups {
		for _, r := range g.Rules {
			name := r.Record + r.Alert + fmt.Sprint(r.Labels)
			if seen[name] {
				return rules{}, fmt.Errorf("%s: the rule %s%s stands twice", file, r.Record, r.Alert)
			}
			seen[name] = true
		}
	}
	return rules{parsed.Groups}, nil
}

// unitTests is the part of promtool's format that dvt uses.
type unitTests struct {
	Interval model.Duration `yaml:"evaluation_interval"`
	Tests    []unitTest     `yaml:"tests"`
}

type unitTest struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"`
	Series   []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []expectation `yaml:"alert_rule_test"`
}

// expectation lists the labels of an alert's instances that fire at a time.
type expectation struct {
	At       model.Duration `yaml:"eval_time"`
	Name     string         `yaml:"alertname"`
	Expected []struct {
		Labels map[string]string `yaml:"exp_labels"`
	} `yaml:"exp_alerts"`
}

// testRules runs the tests of a file, and fails for an alert that no test sees fire, or that no test sees silent.
func testRules(ruleFile, testFile string) error {
	r, err := readRules(ruleFile)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(testFile)
	if err != nil {
		return err
	}
	var file unitTests
	if err := yaml.Unmarshal(b, &file); err != nil {
		return fmt.Errorf("%s: %w", testFile, err)
	}
	fired, silent := map[string]bool{}, map[string]bool{}
	var failed []error
	for _, test := range file.Tests {
		if err := r.run(test, time.Duration(file.Interval), fired, silent); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", test.Name, err))
		}
	}
	alerts := 0
	for _, x := range r.all() {
		if x.Alert == "" {
			continue
		}
		alerts++
		if !fired[x.Alert] || !silent[x.Alert] {
			failed = append(failed, fmt.Errorf("%s needs a test in which it fires and one in which it does not", x.Alert))
		}
	}
	fmt.Printf("%d tests of %d alerts, %d failed\n", len(file.Tests), alerts, len(failed))
	return errors.Join(failed...)
}

// run evaluates the rules in order at each interval, as a group of rules does, and compares the firing alerts.
func (r rules) run(test unitTest, every time.Duration, fired, silent map[string]bool) error {
	db, start := &series{}, time.Unix(0, 0)
	for _, s := range test.Series {
		l, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(s.Series + " " + s.Values)
		if err != nil {
			return err
		}
		for i, v := range values {
			if !v.Omitted {
				db.add(l, start.Add(time.Duration(i)*time.Duration(test.Interval)), v.Value)
			}
		}
	}
	var last time.Duration
	for _, a := range test.Alerts {
		last = max(last, time.Duration(a.At))
	}
	needed := r.neededFor(test)
	engine, active := newEngine(), map[string]time.Time{}
	for at := time.Duration(0); at <= last; at += every {
		firing, err := needed.evaluate(engine, db, start.Add(at), active)
		if err != nil {
			return err
		}
		for _, a := range test.Alerts {
			if time.Duration(a.At) != at {
				continue
			}
			want := make([]string, 0, len(a.Expected))
			for _, x := range a.Expected {
				want = append(want, labels.FromMap(x.Labels).String())
			}
			slices.Sort(want)
			got := firing[a.Name]
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Errorf("%s at %s fires %s, want %s", a.Name, a.At, strings.Join(got, " "), strings.Join(want, " "))
			}
			if len(got) > 0 {
				fired[a.Name] = true
			} else {
				silent[a.Name] = true
			}
		}
	}
	return nil
}

// neededFor returns the alerts that a test names, and the recording rules that they read.
func (r rules) neededFor(test unitTest) rules {
	named := func(x rulefmt.Rule) bool {
		return x.Alert != "" && slices.ContainsFunc(test.Alerts, func(a expectation) bool { return a.Name == x.Alert })
	}
	var needed []rulefmt.Rule
	for _, x := range r.all() {
		read := x.Record != "" && slices.ContainsFunc(r.all(), func(y rulefmt.Rule) bool {
			return named(y) && strings.Contains(y.Expr, x.Record)
		})
		if read || named(x) {
			needed = append(needed, x)
		}
	}
	return rules{[]rulefmt.RuleGroup{{Rules: needed}}}
}

// evaluate evaluates each rule once. active has the times since which alerts are pending.
func (r rules) evaluate(e evaluator, db *series, now time.Time, active map[string]time.Time) (map[string][]string,
	error) {
	firing, seen := map[string][]string{}, map[string]bool{}
	for _, x := range r.all() {
		got, err := e.eval(context.Background(), db, x.Expr, now)
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", x.Record, x.Alert, err)
		}
		for _, sample := range got {
			b := labels.NewBuilder(sample.Metric).Del(model.MetricNameLabel)
			for name, value := range x.Labels {
				b.Set(name, value)
			}
			if x.Record != "" {
				db.add(b.Set(model.MetricNameLabel, x.Record).Labels(), now, sample.F)
				continue
			}
			key := x.Alert + b.Labels().String()
			seen[key] = true
			if _, pending := active[key]; !pending {
				active[key] = now
			}
			if now.Sub(active[key]) >= time.Duration(x.For) {
				firing[x.Alert] = append(firing[x.Alert], b.Labels().String())
			}
		}
	}
	for key := range active {
		if !seen[key] {
			delete(active, key)
		}
	}
	return firing, nil
}
