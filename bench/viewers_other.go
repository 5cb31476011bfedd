//go:build !linux

package main

import (
	"errors"
	"time"
)

// errLinux is the error of figures that need Linux for epoll and for binding processes to cores.
var errLinux = errors.New("this figure is measured on Linux, where server and loader can have cores of their own")

func newViewers(dialect) (*viewers, error) { return nil, errLinux }

func (*viewers) open(string) error { return errLinux }

func (*viewers) look(time.Duration) error { return errLinux }

func (*viewers) send(*viewer, byte, string) {}

func (*viewers) close() {}
