package store

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Schema compares the migrations that a database has with those of this program.
type Schema struct {
	Database   int64             `json:"database"`   // the newest applied migration; 0: the database is empty
	Program    int64             `json:"program"`    // the newest migration of this program
	Migrations []SchemaMigration `json:"migrations"` // ascending; newer ones of another program at the end
}

// SchemaMigration is one migration.
type SchemaMigration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"` // empty for a migration of a newer program
	// What says in a sentence what the migration is for.
	What string `json:"what"`
	// AppliedAt is nil while the database lacks the migration.
	AppliedAt *time.Time `json:"appliedAt"`
}

// Pending returns the migrations that the database lacks, in the order in which they will be applied.
func (s Schema) Pending() (out []SchemaMigration) {
	for _, m := range s.Migrations {
		if m.AppliedAt == nil {
			out = append(out, m)
		}
	}
	return out
}

// CompareSchema returns the Schema of a database. files has the migrations of the program, named VERSION_NAME.sql;
// each begins with a comment that says what it is for. applied are the migrations of the database, by version.
func CompareSchema(files fs.FS, applied map[int64]time.Time) (Schema, error) {
	list, err := fs.Glob(files, "*.sql") // in the order of their names
	if err != nil {
		return Schema{}, err
	}
	s := Schema{}
	for version := range applied {
		s.Database = max(s.Database, version)
	}
	for _, file := range list {
		number, name, _ := strings.Cut(strings.TrimSuffix(file, ".sql"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return Schema{}, fmt.Errorf("the migration %s has no number: %w", file, err)
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return Schema{}, err
		}
		m := SchemaMigration{Version: version, Name: name, What: firstComment(string(text))}
		if at, ok := applied[version]; ok {
			m.AppliedAt = &at
		}
		s.Program = version
		s.Migrations = append(s.Migrations, m)
	}
	for version := s.Program + 1; version <= s.Database; version++ {
		if at, ok := applied[version]; ok {
			s.Migrations = append(s.Migrations, SchemaMigration{Version: version, AppliedAt: &at})
		}
	}
	return s, nil
}

// firstComment returns the first sentence of the comment at the beginning of a migration.
func firstComment(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "--")
		if !ok || strings.TrimSpace(comment) == "" {
			break
		}
		words = append(words, strings.Fields(comment)...)
	}
	all := strings.Join(words, " ")
	if first, _, more := strings.Cut(all, ". "); more {
		return first + "."
	}
	return all
}

// BeforeBaseline returns the ErrSchema for a database whose schema version is below baseline, the oldest version that
// this program migrates. Only the dvt that made such a database can read it.
func BeforeBaseline(version, baseline int64) error {
	return fmt.Errorf("%w: it is %d, and dvt migrates databases from schema %d on; the database was not changed: "+
		"export its runs with the dvt that made it (dvt store export FILE), "+
		"then import them into an empty database (dvt store import FILE)", ErrSchema, version, baseline)
}
