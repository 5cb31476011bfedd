package main

import (
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// defaultSeccomp returns the profile that engines give containers by default.
func defaultSeccomp(s *specs.Spec) (*specs.LinuxSeccomp, error) { return seccomp.GetDefaultProfile(s) }
