package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// eraseEnvironment overwrites values in the block of memory in which the kernel handed over the environment.
func eraseEnvironment(erase func(variable string) bool) {
	block, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return
	}
	start, err := environmentStart()
	if err != nil {
		return
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer memory.Close()
	now := make([]byte, len(block))
	if _, err := memory.ReadAt(now, start); err != nil || !bytes.Equal(now, block) {
		return // it is elsewhere, and nothing else may be overwritten
	}
	for _, e := range erasures(string(block), erase) {
		_, _ = memory.WriteAt(bytes.Repeat([]byte{'x'}, e[1]), start+int64(e[0]))
	}
}

// environmentStart is the address of the block: env_start, field 50 of /proc/self/stat.
func environmentStart() (int64, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	rest := string(stat)
	rest = rest[strings.LastIndexByte(rest, ')')+1:] // the name of the program may hold anything
	fields := strings.Fields(rest)
	if len(fields) < 48 {
		return 0, errors.New("server: /proc/self/stat is too short")
	}
	return strconv.ParseInt(fields[47], 10, 64) // the third field is the first one here
}

// ProtectMemory keeps other processes of the same user from reading the memory, the environment and the open files of
// this one through /proc, and from tracing it. There are no core dumps afterwards. Call it after ForgetEnvironment, which
// writes to this process's own memory. Programs that this process starts are not protected by it.
func ProtectMemory() error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("server: PR_SET_DUMPABLE: %w", errno)
	}
	return nil
}
