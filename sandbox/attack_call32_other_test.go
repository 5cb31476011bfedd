//go:build linux && !amd64

package sandbox_test

import "errors"

func call32(world) error { return errors.New("this test knows no 32-bit calls of this architecture") }
