//go:build !linux

package rig

import "errors"

var errNoMemory = errors.New("the memory of another process can be measured on Linux only")

func (*service) resetPeakMemory() (int64, error) { return 0, errNoMemory }

func (*service) status(string) (int64, error) { return 0, errNoMemory }
