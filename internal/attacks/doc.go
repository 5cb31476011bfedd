// Package attacks holds the suite `attacks`: strangers at Temporal, workers with a token and authors of plans try to
// write into the log, to run programs where the store's credentials are, and to hold up runs. The suite has no code of the product.
// It starts real processes of the binary that DVT_ATTACKS_BINARY names, else of one built from the sources. With
// DVT_ATTACKS_OLD=1 it speaks to a binary from before the tickets (commit 0870d7c), where the attacks succeed and the tests fail.
package attacks
