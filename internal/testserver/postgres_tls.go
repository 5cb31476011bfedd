package testserver

import "testing"

// SecureRole is the role of clients of a PostgresTLS server. It owns the database dvt. It must connect over TLS, with a
// certificate of this common name and with its password.
const SecureRole = "app"

const secureRules = "host all postgres 127.0.0.1/32 trust\nhostssl all " + SecureRole +
	" 127.0.0.1/32 scram-sha-256 clientcert=verify-full\n"

// PostgresTLS starts a server that only t uses. It presents the certificate server and requires of SecureRole a
// certificate of the authority clients and the password. The superuser of DSN needs neither. The server ends when t
// ends.
func PostgresTLS(t testing.TB, server Pair, clients *Authority, password string) *PostgresServer {
	t.Helper()
	files := secureFiles(server, clients)
	files["hba.conf"] = []byte(secureRules)
	s, err := StartPostgres(PostgresOptions{
		Settings: []string{
			"ssl=on", "ssl_cert_file={dir}/server.pem", "ssl_key_file={dir}/server.key",
			"ssl_ca_file={dir}/clients.pem",
			"hba_file={dir}/hba.conf", "fsync=off", "shared_buffers=32MB",
		},
		Files: files,
	})
	if err != nil {
		t.Fatalf("testserver: no PostgreSQL with TLS: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("testserver: clean up after PostgreSQL: %v", err)
		}
	})
	s.Exec(t, "CREATE ROLE "+SecureRole+" LOGIN PASSWORD '"+password+"'")
	s.Exec(t, "CREATE DATABASE dvt OWNER "+SecureRole+" TEMPLATE template0 ENCODING 'UTF8'")
	return s
}

// Exec runs a statement as the superuser.
func (s *PostgresServer) Exec(t testing.TB, sql string) {
	t.Helper()
	if err := execSQL(s.DSN, sql); err != nil {
		t.Fatalf("testserver: %s: %v", sql, err)
	}
}

// ReplaceCredentials replaces the certificate of the server, the authority of clients and the password of SecureRole,
// and closes the connections of SecureRole.
func (s *PostgresServer) ReplaceCredentials(t testing.TB, server Pair, clients *Authority, password string) {
	t.Helper()
	s.Replace(t, secureFiles(server, clients))
	s.Exec(t, "ALTER ROLE "+SecureRole+" PASSWORD '"+password+"'")
	s.Cut(t)
}

// Cut closes all connections of SecureRole.
func (s *PostgresServer) Cut(t testing.TB) {
	t.Helper()
	s.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+SecureRole+"'")
}

func secureFiles(server Pair, clients *Authority) map[string][]byte {
	return map[string][]byte{"server.pem": server.Cert, "server.key": server.Key, "clients.pem": clients.PEM}
}
