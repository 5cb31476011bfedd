//go:build !linux

package config

// eraseEnvironment does nothing: other systems do not show the environment to others, or offer no way to change it.
func eraseEnvironment(func(variable string) bool) {}

// ProtectMemory does nothing on this system.
func ProtectMemory() error { return nil }
