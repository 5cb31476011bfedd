package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/dvt-engine/dvt/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema forward to the newest version that this program
// knows. Two processes may race for a new file: the loser finds the winner's
// tables and looks again.
func migrate(ctx context.Context, db *sql.DB) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	const tries = 20
	for try := 1; ; try++ {
		err := forward(ctx, p)
		if err == nil || try == tries || errors.Is(err, store.ErrSchema) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func forward(ctx context.Context, p *goose.Provider) error {
	have, known, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > known {
		return fmt.Errorf("%w: file has %d, program knows up to %d", store.ErrSchema, have, known)
	}
	if have == known {
		return nil
	}
	_, err = p.Up(ctx)
	return err
}
