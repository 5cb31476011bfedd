//go:build !linux

package server

// memoryPressure returns 0, because it is unknown on this system.
func memoryPressure() float64 { return 0 }
