package store

import "fmt"

// BeforeBaseline returns the ErrSchema for a database whose schema version is below baseline, the oldest version that
// this program migrates. Only the dvt that made such a database can read it.
func BeforeBaseline(version, baseline int64) error {
	return fmt.Errorf("%w: it is %d, and dvt migrates databases from schema %d on; the database was not changed: "+
		"export its runs with the dvt that made it (dvt store export FILE), "+
		"then import them into an empty database (dvt store import FILE)", ErrSchema, version, baseline)
}
