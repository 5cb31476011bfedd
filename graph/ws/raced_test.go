//go:build race

package ws_test

// raced reports whether the tests run with the race detector, which makes them slow.
const raced = true
