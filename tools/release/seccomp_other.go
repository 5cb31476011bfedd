//go:build !linux

package main

import (
	"errors"

	"github.com/opencontainers/runtime-spec/specs-go"
)

func defaultSeccomp(*specs.Spec) (*specs.LinuxSeccomp, error) {
	return nil, errors.New("containers run on Linux only")
}
