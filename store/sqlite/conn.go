package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync/atomic"
)

// OpenOwner opens the file at path for package owner, which may delete rows of insert-only tables. It migrates nothing.
func OpenOwner(ctx context.Context, path string) (*sql.DB, error) {
	// secure_delete overwrites what is deleted, so that no byte of it stays in the file.
	db, err := sql.Open("sqlite", dsn(path, Options{}.withDefaults())+"&_pragma=secure_delete(1)")
	if err != nil {
		return nil, fmt.Errorf("sqlite: open: %w", err)
	}
	db.SetMaxOpenConns(1)
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("sqlite: open: %w", err)
	}
	return db, nil
}

// conn is one connection to the file with its prepared statements. Only one goroutine at a time may use it, and only
// one statement at a time runs on it. It uses the driver directly, because database/sql takes about half of the time of
// a small statement.
type conn struct {
	s      *Store
	driver driver.Conn
	// writes is true on the writer's connection. Its statements are not interrupted when their context ends, because
	// SQLite would roll back the transaction that other calls share.
	writes bool
	stmts  map[string]statement
	args   []driver.NamedValue // of the current statement; reused
	ran    *atomic.Int64       // counts the executed statements
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// maxStatements bounds the prepared statements of a connection, because each combination of list filters has its own
// statement.
const maxStatements = 128

func (s *Store) connect(dsn string, writes bool) (*conn, error) {
	d, err := s.driver.Open(dsn)
	if err != nil {
		return nil, s.translate("open", err)
	}
	return &conn{s: s, driver: d, writes: writes, stmts: map[string]statement{}, ran: &s.statements}, nil
}

func (c *conn) close() error {
	c.forget()
	return c.driver.Close()
}

func (c *conn) forget() {
	for query, st := range c.stmts {
		_ = st.Close() // repeats the error of the last execution
		delete(c.stmts, query)
	}
}

func (c *conn) prepare(query string) (statement, error) {
	if st := c.stmts[query]; st != nil {
		return st, nil
	}
	if len(c.stmts) >= maxStatements {
		c.forget()
	}
	prepared, err := c.driver.Prepare(query)
	if err != nil {
		return nil, err
	}
	st, ok := prepared.(statement)
	if !ok {
		return nil, fmt.Errorf("the driver returned a statement of type %T", prepared)
	}
	c.stmts[query] = st
	return st, nil
}

// values converts arguments for the driver. The result is valid until the next call.
func (c *conn) values(args []any) ([]driver.NamedValue, error) {
	c.args = c.args[:0]
	for i, arg := range args {
		switch arg.(type) {
		case nil, int64, string, []byte:
		default:
			var err error
			if arg, err = driver.DefaultParameterConverter.ConvertValue(arg); err != nil {
				return nil, err
			}
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return c.args, nil
}

// exec runs a statement that returns no rows, and returns the number of changed rows. It translates errors.
func (c *conn) exec(ctx context.Context, what, query string, args ...any) (int64, error) {
	c.s.trace(ctx, query)
	if c.writes {
		ctx = context.Background()
	}
	return c.execInterruptible(ctx, what, query, args...)
}

func (c *conn) execInterruptible(ctx context.Context, what, query string, args ...any) (int64, error) {
	st, err := c.prepare(query)
	if err != nil {
		return 0, c.s.translate(what, err)
	}
	vals, err := c.values(args)
	if err != nil {
		return 0, c.s.translate(what, err)
	}
	c.ran.Add(1)
	res, err := st.ExecContext(ctx, vals)
	if err != nil {
		return 0, c.s.translate(what, err)
	}
	n, err := res.RowsAffected()
	return n, c.s.translate(what, err)
}

// query runs a statement and calls each for every row. A row is valid only during that call. It translates errors.
func (c *conn) query(ctx context.Context, what, query string, args []any, each func(row) error) error {
	c.s.trace(ctx, query)
	if c.writes {
		ctx = context.Background()
	}
	return c.s.translate(what, c.rows(ctx, query, args, each))
}

func (c *conn) rows(ctx context.Context, query string, args []any, each func(row) error) error {
	st, err := c.prepare(query)
	if err != nil {
		return err
	}
	vals, err := c.values(args)
	if err != nil {
		return err
	}
	c.ran.Add(1)
	rows, err := st.QueryContext(ctx, vals)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Next has returned the error
	at := make(row, len(rows.Columns()))
	for {
		switch err := rows.Next(at); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := each(at); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, c *conn, what string, scan func(scanner) (T, error), query string,
	args ...any) ([]T, error) {
	var out []T
	err := c.query(ctx, what, query, args, func(r row) error {
		v, err := scan(r)
		out = append(out, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// collectOne reads the only row of a query. It returns store.ErrNotFound if there is none.
func collectOne[T any](ctx context.Context, c *conn, what string, scan func(scanner) (T, error), query string,
	args ...any) (T, error) {
	var out T
	found := false
	err := c.query(ctx, what, query, args, func(r row) (err error) {
		found = true
		out, err = scan(r)
		return err
	})
	if err == nil && !found {
		err = notFound(what)
	}
	return out, err
}

// readAll is collect on a connection of the reader.
func readAll[T any](ctx context.Context, s *Store, what string, scan func(scanner) (T, error), query string,
	args ...any) (out []T, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		out, err = collect(ctx, c, what, scan, query, args...)
		return err
	})
	return out, err
}

// readOne is collectOne on a connection of the reader.
func readOne[T any](ctx context.Context, s *Store, what string, scan func(scanner) (T, error), query string,
	args ...any) (out T, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		out, err = collectOne(ctx, c, what, scan, query, args...)
		return err
	})
	return out, err
}

// value scans a row of one column.
func value[T any](row scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

type scanner interface{ Scan(dest ...any) error }

// row is one row of a result.
type row []driver.Value

// Scan implements scanner for the first len(dest) columns of r.
func (r row) Scan(dest ...any) error {
	for i, d := range dest {
		if err := assign(d, r[i]); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return nil
}

// assign stores v in the variable that dest points at. It handles integers, booleans, strings and byte slices of any
// named type, and every sql.Scanner. The schema needs no other types.
func assign(dest any, v driver.Value) error {
	switch d := dest.(type) {
	case *string:
		if v, ok := v.(string); ok {
			*d = v
			return nil
		}
	case *int64:
		if v, ok := v.(int64); ok {
			*d = v
			return nil
		}
	case sql.Scanner:
		return d.Scan(v)
	}
	to := reflect.ValueOf(dest).Elem()
	kind := to.Kind()
	switch v := v.(type) {
	case nil:
		to.SetZero()
		return nil
	case int64:
		if kind == reflect.Bool {
			to.SetBool(v != 0)
			return nil
		}
		if to.CanInt() {
			to.SetInt(v)
			return nil
		}
		if to.CanUint() && v >= 0 {
			to.SetUint(uint64(v))
			return nil
		}
	case string:
		if kind == reflect.String {
			to.SetString(v)
			return nil
		}
		if kind == reflect.Slice {
			to.SetBytes([]byte(v))
			return nil
		}
	case []byte:
		if kind == reflect.Slice {
			to.SetBytes(v)
			return nil
		}
	}
	return fmt.Errorf("cannot assign a %T to a %s", v, to.Type())
}
