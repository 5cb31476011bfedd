package sqlite

import (
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"modernc.org/sqlite"

	"github.com/dvt-engine/dvt/store"
)

// The baseline and the audit need functions that SQLite lacks. They must be registered before a connection is opened.
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
	sqlite.MustRegisterDeterministicScalarFunction("dvt_sha256", 1, func(_ *sqlite.FunctionContext,
		args []driver.Value) (driver.Value, error) {
		body, ok := args[0].([]byte)
		if !ok {
			return nil, errors.New("dvt_sha256: the argument is no blob")
		}
		return store.PlanSum(body), nil
	})
	sqlite.MustRegisterScalarFunction("dvt_uuid", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return uuid.NewString(), nil
	})
}
