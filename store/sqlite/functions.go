package sqlite

import (
	"database/sql/driver"
	"errors"

	"modernc.org/sqlite"

	"github.com/dvt-engine/dvt/store"
)

// The audit of runs needs SHA-256, which SQLite lacks. The driver requires that functions are registered before a
// connection is opened.
func init() { //nolint:gochecknoinits // the driver is registered in the same way
	sqlite.MustRegisterDeterministicScalarFunction("dvt_sha256", 1, func(_ *sqlite.FunctionContext,
		args []driver.Value) (driver.Value, error) {
		body, ok := args[0].([]byte)
		if !ok {
			return nil, errors.New("dvt_sha256: the argument is not a blob")
		}
		return store.PlanSum(body), nil
	})
}
