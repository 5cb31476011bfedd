package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// table is rows for people: columns aligned, the last one free. On a terminal it is cut to
// its width, unless whole; what comes from elsewhere cannot move the cursor. A table without a head has
// rows of any length.
type table struct {
	console.Display
	whole  bool
	before string // each line
	head   []string
	rows   [][]console.Span
}

// row adds a row of texts, numbers and spans.
func (t *table) row(cells ...any) {
	row := make([]console.Span, len(cells))
	for i, c := range cells {
		s, styled := c.(console.Span)
		if !styled {
			s = console.Span{Text: fmt.Sprint(c)}
		}
		s.Text = t.Replace(console.OneLine(s.Text))
		row[i] = s
	}
	t.rows = append(t.rows, row)
}

func (t *table) print() error {
	rows := t.rows
	if len(t.head) > 0 {
		head := make([]console.Span, len(t.head))
		for i, name := range t.head {
			head[i] = console.Span{Text: name, Style: console.Bold}
		}
		rows = append([][]console.Span{head}, rows...)
	}
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], runewidth.StringWidth(c.Text))
		}
	}
	width, _ := t.Size()
	for _, row := range rows {
		l := console.Line{{Text: t.before, Style: console.Plain}}
		for i, c := range row {
			l = append(l, c)
			if i < len(row)-1 {
				l = append(l, console.Span{Text: strings.Repeat(" ", widths[i]-runewidth.StringWidth(c.Text)+2)})
			}
		}
		if t.IsTerminal() && !t.whole {
			l = t.Fit(l, width)
		}
		if _, err := io.WriteString(t.Out, strings.TrimRight(t.Render(l), " ")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// looks is how lists are shown.
type looks struct{ utc, noTrunc bool }

func (l *looks) listFlags(c *cobra.Command) {
	c.PersistentFlags().BoolVar(&l.utc, "utc", false,
		"times as they are in UTC; default: on a terminal how long ago, else in UTC")
	c.PersistentFlags().BoolVar(&l.noTrunc, "no-trunc", false,
		"whole ids and whole lines, as -o wide; default: on a terminal what fits")
}

func (s *session) table(head ...string) *table {
	return &table{Display: s.display, whole: s.whole(), head: head}
}

// whole reports whether nothing is to be left out of what a terminal has no room for.
func (s *session) whole() bool { return s.noTrunc || s.output == document.Wide }

// when is a moment as a list shows it.
func (s *session) when(t *time.Time) string {
	if t == nil || s.utc || !s.display.IsTerminal() {
		return runtext.Moment(t)
	}
	if d := time.Since(*t); d >= 0 {
		return age(d) + " ago"
	}
	return "in " + age(time.Until(*t))
}

// age is a duration to the unit that matters.
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

// shortened gives each of the run ids of a list as much as tells them apart, on a terminal.
func (s *session) shortened(ids []string) func(string) string {
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

// page is what a list's reader says of a page: how many rows it had, whether there are more and after what.
type page struct {
	rows  int
	more  bool
	after *string
}

// behind puts what was read before in front of a page's edges, and says how the list goes on.
func behind[E any](before []E, edges *[]E, info interface {
	GetHasNextPage() bool
	GetEndCursor() *string
},
) page {
	rows := len(*edges)
	if len(before) > 0 { // else an empty list stays one, which is not null
		*edges = append(before, *edges...)
	}
	return page{rows, info.GetHasNextPage(), info.GetEndCursor()}
}

// Lists: how many rows one may be asked for. They are held at once.
const maxLimit = 10_000

// listed is a list of which one asks for so many rows.
type listed struct {
	limit int
	none  string // what to do when it is empty
}

func (l *listed) flag(c *cobra.Command, usual int) {
	c.Flags().IntVar(&l.limit, "limit", usual, fmt.Sprintf("at most so many, up to %d", maxLimit))
}

// list reads a list page by page and prints it: all for programs, a table for people. What is there beside it is
// said on standard error.
func (s *session) list(ctx context.Context, l listed, all any, read func(ctx context.Context, first int,
	after *string) (page, error), fill func() *table) error {
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
		err = s.print(all)
	case rows == 0:
		fmt.Fprintln(s.err, l.none)
	default:
		err = fill().print()
	}
	if err == nil && got.more {
		fmt.Fprintf(s.err, "there are more, of which --limit %d shows so many\n", min(rows*5, maxLimit))
	}
	return err
}
