//go:build linux && !amd64

package sandbox_test

import "errors"

func call32(world) error { return errors.New("this architecture has no calls of 32 bits here") }
