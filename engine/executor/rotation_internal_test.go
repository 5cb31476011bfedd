package executor

import "testing"

func TestRefusal_IsARefusedCredentialAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`FATAL: password authentication failed for user "dbt"`,
		"250001 (08001): Failed to connect to DB: Incorrect username or password was specified.",
		"ERROR 1045 (28000): Access denied for user 'dbt'@'10.0.0.1' (using password: YES)",
		"Login failed for user 'dbt'.", "HTTP 401 Unauthorized", "JWT token is invalid", "the access token expired",
		"invalid API key", "Failed to authenticate: credentials have expired", "botocore: Authentication failure",
	} {
		if !refusal.MatchString(line) {
			t.Errorf("%q is not seen as a refused credential", line)
		}
	}
	for _, line := range []string{
		`relation "orders" does not exist`, "Database Error in model orders: division by zero", "connection refused",
		"permission denied for table orders", "syntax error: unexpected token", "duplicate key value violates unique",
		"KeyError: 'password'", "authentication succeeded", "open /etc/x: permission denied", "exit status 1",
	} {
		if refusal.MatchString(line) {
			t.Errorf("%q is seen as a refused credential", line)
		}
	}
}
