package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// eraseEnvironment overwrites values in the memory block that the kernel shows as /proc/PID/environ. It does nothing
// when it cannot locate the block with certainty.
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
		return // the block is elsewhere; writing here would corrupt other memory
	}
	for _, e := range erasures(string(block), erase) {
		_, _ = memory.WriteAt(bytes.Repeat([]byte{'x'}, e[1]), start+int64(e[0]))
	}
}

// environmentStart returns the address of the block: env_start, field 50 of /proc/self/stat.
func environmentStart() (int64, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	rest := string(stat)
	rest = rest[strings.LastIndexByte(rest, ')')+1:] // the program's name may contain spaces and parentheses
	fields := strings.Fields(rest)
	if len(fields) < 48 {
		return 0, errors.New("config: /proc/self/stat is too short")
	}
	return strconv.ParseInt(fields[47], 10, 64) // field 50: fields begins with the third field of the file
}

// ProtectMemory prevents other processes of the same user from tracing this one and from reading its memory,
// environment and open files through /proc. It also disables core dumps. Call it after ForgetEnvironment, which writes
// to this process's own memory. It does not protect child processes.
func ProtectMemory() error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("config: PR_SET_DUMPABLE: %w", errno)
	}
	return nil
}
