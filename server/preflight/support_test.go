package preflight_test

import (
	"database/sql"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// execSQL runs a statement as the owner of a database.
func execSQL(t *testing.T, dsn, statement string) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// sendRedis sends a command, whose words have no spaces, and fails unless Redis accepts it.
func sendRedis(t *testing.T, addr, command string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	words := strings.Fields(command)
	fmt.Fprintf(c, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(c, "$%d\r\n%s\r\n", len(w), w)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer := make([]byte, 256)
	if n, err := c.Read(answer); err != nil || answer[0] != '+' {
		t.Fatalf("%s: %q, %v", command, answer[:n], err)
	}
}
