package rig

import (
	"fmt"
	"os"
	"strings"
)

// ResetPeakMemory resets the peak resident memory of the service in the kernel, and returns its current resident memory
// in bytes.
func (s *Service) ResetPeakMemory() (bytes int64, err error) {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.child.Process.Pid), []byte("5"), 0); err != nil {
		return 0, err
	}
	return s.Status("VmRSS")
}

// Status returns a field of the service's /proc/PID/status that the kernel reports in kB, in bytes.
func (s *Service) Status(field string) (bytes int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.child.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), "\n"+field+":")
	if !found {
		return 0, fmt.Errorf("the kernel does not report %s of the server", field)
	}
	_, err = fmt.Sscan(rest, &bytes)
	return bytes << 10, err
}
