//go:build !linux

package server

// memoryPressure is not known on this system.
func memoryPressure() float64 { return 0 }
