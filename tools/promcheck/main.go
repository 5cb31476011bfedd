// Command promcheck checks rules and queries with the engine of Prometheus itself:
//
//	promcheck rules RULES        parses a file of rules as Prometheus does
//	promcheck test RULES TESTS   runs unit tests of rules, in the format of `promtool test rules`
//	promcheck query RULES QUERIES JOB=BEFORE,AFTER...
//
// query loads two pages of each target, evaluates the recording rules of RULES, and then each line of QUERIES. It fails
// on a query that does not parse or that returns nothing.
//
// It is not promtool, which compiles 450 packages more for the discovery of targets. It reads the same files.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "rules":
		rules, err := readRules(args[1])
		if err == nil {
			fmt.Printf("%d rules\n", len(rules.all()))
		}
		return err
	case len(args) == 3 && args[0] == "test":
		return testRules(args[1], args[2])
	case len(args) >= 4 && args[0] == "query":
		return query(args[1], args[2], args[3:])
	}
	return errors.New("usage: promcheck rules RULES | test RULES TESTS | query RULES QUERIES JOB=BEFORE,AFTER...")
}

// query evaluates recording rules and the lines of a file against pages of targets. Each page is repeated for half an
// hour before and after the change, so that rates over any window of a dashboard have samples.
func query(ruleFile, file string, targets []string) error {
	r, err := readRules(ruleFile)
	if err != nil {
		return err
	}
	db := &series{}
	for _, t := range targets {
		job, pages, _ := strings.Cut(t, "=")
		before, after, ok := strings.Cut(pages, ",")
		if !ok {
			return fmt.Errorf("%s is not JOB=BEFORE,AFTER", t)
		}
		if err := db.load(job, before, after); err != nil {
			return err
		}
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	engine, failed, n := newEngine(), []error(nil), 0
	if _, err := r.evaluate(engine, db, queryAt, map[string]time.Time{}); err != nil {
		return err
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		q := strings.TrimSpace(lines.Text())
		if q == "" {
			continue
		}
		n++
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(q); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", q, err))
			continue
		}
		got, err := engine.eval(context.Background(), db, q, queryAt)
		if err != nil || len(got) == 0 {
			failed = append(failed, fmt.Errorf("%s: %d results: %w", q, len(got), errors.Join(err, errNoData)))
		}
	}
	fmt.Printf("%d queries, %d without data\n", n, len(failed))
	return errors.Join(append(failed, lines.Err())...)
}

var errNoData = errors.New("want at least one")

// Samples of pages: the first page from 0 on, the second one from changeAt on, both every step; queries are asked at
// queryAt.
var (
	step     = 15 * time.Second
	changeAt = time.Unix(1800, 0)
	queryAt  = time.Unix(1830, 0)
)
