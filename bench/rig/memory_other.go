//go:build !linux

package rig

import "errors"

var errNoMemory = errors.New("the memory of another process can be measured on Linux only")

// ResetPeakMemory returns an error, because only Linux reports the memory of another process.
func (*Service) ResetPeakMemory() (int64, error) { return 0, errNoMemory }

// Status returns an error, because only Linux reports the memory of another process.
func (*Service) Status(string) (int64, error) { return 0, errNoMemory }
