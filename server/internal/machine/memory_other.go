//go:build !linux

package machine

// MemoryPressure returns 0, because it is unknown on this system.
func MemoryPressure() float64 { return 0 }
