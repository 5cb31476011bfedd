package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// listStyle are the flags that change how lists are shown.
type listStyle struct{ utc, noTrunc bool }

func (l *listStyle) listFlags(c *cobra.Command) {
	c.PersistentFlags().BoolVar(&l.utc, "utc", false,
		"show times in UTC; default: on a terminal how long ago, else in UTC")
	c.PersistentFlags().BoolVar(&l.noTrunc, "no-trunc", false,
		"whole ids and whole lines, like -o wide; default: on a terminal cut to its width")
}

func (s *session) table(head ...string) *console.Table {
	return &console.Table{Display: s.display, Whole: s.whole(), Head: head}
}

// whole reports whether lines must not be cut to the width of a terminal.
func (s *session) whole() bool { return s.noTrunc || s.output == document.Wide }

// when formats a time for a list: as an age on a terminal, otherwise, or with --utc, in UTC.
func (s *session) when(t *time.Time) string {
	if t == nil || s.utc || !s.display.IsTerminal() {
		return runtext.Moment(t)
	}
	if d := time.Since(*t); d >= 0 {
		return age(d) + " ago"
	}
	return "in " + age(time.Until(*t))
}

// age formats a duration in its largest useful unit.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// shortIDs returns a function that shortens the run ids of a list. On a terminal it keeps the shortest prefix that is
// unique in the list, otherwise the whole id.
func (s *session) shortIDs(ids []string) func(string) string {
	whole := func(id string) string { return id }
	if s.whole() || !s.display.IsTerminal() {
		return whole
	}
	for n := shortRunID; n < 36; n += 4 {
		seen := map[string]string{}
		unique := true
		for _, id := range ids {
			short := id[:min(len(id), n)]
			other, known := seen[short]
			unique = unique && (!known || other == id)
			seen[short] = id
		}
		if unique {
			return func(id string) string { return id[:min(len(id), n)] }
		}
	}
	return whole
}

// page describes one page that was read: the number of its rows, whether more exist, and the cursor behind it.
type page struct {
	rows  int
	more  bool
	after *string
}

// prepend puts the edges of earlier pages before those of the page, and returns the description of the page.
func prepend[E any](before []E, edges *[]E, info client.PageInfo) page {
	rows := len(*edges)
	if len(before) > 0 { // keeps an empty list: appending nothing to nil would make it null in JSON
		*edges = append(before, *edges...)
	}
	return page{rows, info.HasNextPage, info.EndCursor}
}

// maxLimit bounds the rows of a list, because all of them are in memory at once.
const maxLimit = 10_000

// listing are the settings of a list command.
type listing struct {
	limit int    // greatest number of rows: --limit
	none  string // message when the list is empty
}

func (l *listing) flag(c *cobra.Command, usual int) {
	c.Flags().IntVar(&l.limit, "limit", usual, fmt.Sprintf("greatest number of rows, up to %d", maxLimit))
}

// list reads a list page by page up to the limit and prints it: the nodes of all for programs, the table of fill for
// people.
// Messages about an empty list and about further rows go to standard error.
func (s *session) list(ctx context.Context, l listing, all any, read func(ctx context.Context, first int,
	after *string) (page, error), fill func() *console.Table) error {
	if l.limit < 1 || l.limit > maxLimit {
		return cmdline.Usage(fmt.Errorf("--limit must be from 1 to %d", maxLimit))
	}
	got := page{more: true}
	rows := 0
	for rows < l.limit && got.more {
		var err error
		if got, err = read(ctx, min(l.limit-rows, maxPage), got.after); err != nil {
			return cmdline.Failure(err)
		}
		rows += got.rows
	}
	var err error
	switch {
	case s.output.IsData():
		var doc json.RawMessage
		if doc, err = document.List(all); err == nil {
			err = s.print(doc)
		}
	case rows == 0:
		fmt.Fprintln(s.err, l.none)
	default:
		err = fill().Print()
	}
	if err == nil && got.more {
		fmt.Fprintf(s.err, "more rows exist; use --limit %d\n", min(rows*5, maxLimit))
	}
	return err
}
