package sqlite

import (
	"context"
	"math/bits"
	"strings"
)

// many is one statement in the sizes of 1, 2, 4, … rows, so that few statements
// serve every number of rows.
type many [6]string

// maxRows is the rows of the largest size.
const maxRows = 1 << (len(many{}) - 1)

// manyRows has the rows, separated by commas, between head and tail.
func manyRows(head, row, tail string) (m many) {
	for i := range m {
		m[i] = head + strings.Repeat(row+`, `, 1<<i-1) + row + tail
	}
	return m
}

// alone puts the plain form of the statement in the place of that for one row,
// which is that of a call that is alone.
func (m many) alone(statement string) many {
	m[0] = statement
	return m
}

// exec runs m for every row of args, width values each. Rows that were written
// before an error stay until the caller takes its work back.
func (m *many) exec(ctx context.Context, c *conn, what string, width int, args []any) error {
	for len(args) > 0 {
		size := min(bits.Len(uint(len(args)/width)), len(m)) - 1
		n := width << size
		if _, err := c.exec(ctx, what, m[size], args[:n]...); err != nil {
			return err
		}
		args = args[n:]
	}
	return nil
}

// query runs m for every row of args, width values each, and fills the last
// statement with rows of NULL, which find nothing.
func (m *many) query(ctx context.Context, c *conn, what string, width int, args []any, each func(row) error) error {
	for len(args) > 0 {
		rows := min(len(args)/width, maxRows)
		size := bits.Len(uint(rows - 1))
		part := args[:rows*width]
		if fill := width<<size - len(part); fill > 0 {
			part = append(part[:len(part):len(part)], make([]any, fill)...)
		}
		if err := c.query(ctx, what, m[size], part, each); err != nil {
			return err
		}
		args = args[rows*width:]
	}
	return nil
}
