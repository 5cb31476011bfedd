// Package attacks holds the test suite `attacks`. Strangers with access to Temporal, workers with a token and authors
// of plans try to write into the log, to run programs beside the store's credentials, and to delay runs. The package
// has no code of the product. It starts real processes of the binary in DVT_ATTACKS_BINARY, or of one built from the
// sources. With DVT_ATTACKS_OLD=1 it runs against a binary from before the tickets (commit 0870d7c); there the attacks
// succeed and the tests fail.
package attacks
