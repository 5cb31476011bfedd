//go:build !race

package ws_test

// raced says whether the race detector slows the tests down.
const raced = false
