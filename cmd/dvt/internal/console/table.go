package console

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Table is a table for people. All columns but the last are aligned. On a terminal lines are cut to its width, unless
// Whole is set. Control characters in cells are replaced, so that text from outside cannot move the cursor. Rows of a
// table without a head may have different lengths.
type Table struct {
	Display
	Whole  bool
	Before string // prefix of each line
	Head   []string
	// Flex names the column that is cut first when the rows are wider than the terminal, to no fewer than FlexLeast
	// cells. Before it gets narrower than that, the columns of Yield are left out, the first one first.
	Flex      string
	FlexLeast int
	Yield     []string
	rows      [][]Span
}

// Row adds a row. Cells are spans, or values that are formatted like fmt.Sprint does.
func (t *Table) Row(cells ...any) {
	row := make([]Span, len(cells))
	for i, c := range cells {
		s, styled := c.(Span)
		if !styled {
			s = Span{Text: fmt.Sprint(c)}
		}
		s.Text = t.Replace(OneLine(s.Text))
		row[i] = s
	}
	t.rows = append(t.rows, row)
}

// Print writes the table. It returns the first error of the output.
func (t *Table) Print() error {
	rows := t.rows
	if len(t.Head) > 0 {
		head := make([]Span, len(t.Head))
		for i, name := range t.Head {
			head[i] = Span{Text: name, Style: Bold}
		}
		rows = append([][]Span{head}, rows...)
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
	if t.IsTerminal() && !t.Whole && t.Flex != "" {
		rows, widths = t.squeeze(rows, widths, width)
	}
	for _, row := range rows {
		l := Line{{Text: t.Before, Style: Plain}}
		for i, c := range row {
			l = append(l, c)
			if i < len(row)-1 {
				l = append(l, Span{Text: strings.Repeat(" ", widths[i]-runewidth.StringWidth(c.Text)+2)})
			}
		}
		if t.IsTerminal() && !t.Whole {
			l = t.Fit(l, width)
		}
		if _, err := io.WriteString(t.Out, strings.TrimRight(t.Render(l), " ")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// squeeze returns the rows without the columns that give way, and with the flexible column cut to the room that is
// left.
func (t *Table) squeeze(rows [][]Span, widths []int, width int) ([][]Span, []int) {
	head := slices.Clone(t.Head)
	room := func() int { // what the flexible column can have
		out := width
		for i, name := range head {
			if name != t.Flex {
				out -= widths[i] + 2
			}
		}
		return out
	}
	for _, name := range t.Yield {
		flex, at := slices.Index(head, t.Flex), slices.Index(head, name)
		if room() >= min(t.FlexLeast, widths[flex]) || at < 0 {
			break
		}
		head, widths = slices.Delete(head, at, at+1), slices.Delete(widths, at, at+1)
		for i, row := range rows {
			rows[i] = slices.Delete(slices.Clone(row), at, at+1)
		}
	}
	flex := slices.Index(head, t.Flex)
	widths[flex] = min(widths[flex], max(room(), t.FlexLeast))
	for _, row := range rows {
		row[flex].Text = runewidth.Truncate(row[flex].Text, widths[flex], t.Replace("…"))
	}
	return rows, widths
}
