// Command postgres puts PostgreSQL's programs (initdb, postgres) under a directory, for machines where no package
// manager may install them. It needs no root: the archive comes from Maven Central.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: postgres DIR")
		os.Exit(2)
	}
	if err := install(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "postgres: %v\n", err)
		os.Exit(1)
	}
}

// install unpacks PostgreSQL 17 into dir/bin and dir/lib and leaves nothing else behind. Starting the server is how the
// library unpacks; that start fails for root, whom initdb refuses, after the programs are in place, so they are what is
// looked at.
func install(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "dvt-postgres-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	port, err := freePort()
	if err != nil {
		return err
	}
	db := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.V17).
		Port(port).
		BinariesPath(dir).
		RuntimePath(filepath.Join(work, "run")).
		DataPath(filepath.Join(work, "data")).
		CachePath(filepath.Join(work, "cache")).
		StartTimeout(time.Minute))
	startErr := db.Start()
	if startErr == nil {
		startErr = db.Stop()
	}
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, "bin", program)); err != nil {
			return errors.Join(startErr, err)
		}
	}
	return nil
}

func freePort() (uint32, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return uint32(l.Addr().(*net.TCPAddr).Port), nil
}
