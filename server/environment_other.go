//go:build !linux

package server

// eraseEnvironment does nothing: other systems show the environment to nobody else, or have no way to change it.
func eraseEnvironment(func(variable string) bool) {}

// ProtectMemory does nothing on this system.
func ProtectMemory() error { return nil }
