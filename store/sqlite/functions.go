package sqlite

import (
	"database/sql/driver"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"modernc.org/sqlite"

	"github.com/dvt-engine/dvt/store"
)

// Migration 9 needs functions that SQLite lacks. They must be registered before a connection is opened.
func init() { //nolint:gochecknoinits // the driver is registered in the same way
	sqlite.MustRegisterDeterministicScalarFunction("dvt_digest", -1, func(_ *sqlite.FunctionContext,
		args []driver.Value) (driver.Value, error) {
		parts := make([]string, len(args))
		for i, a := range args {
			switch v := a.(type) {
			case string:
				parts[i] = v
			case []byte:
				parts[i] = string(v)
			default:
				return nil, fmt.Errorf("dvt_digest: argument %d is no text", i+1)
			}
		}
		sum := store.Digest(parts...)
		return hex.EncodeToString(sum[:]), nil
	})
	sqlite.MustRegisterScalarFunction("dvt_uuid", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return uuid.NewString(), nil
	})
}
