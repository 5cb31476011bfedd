//go:build unix

package preflight

import (
	"os"
	"syscall"
)

// ownerOf returns the id of the user that owns a file.
func ownerOf(info os.FileInfo) (uid int, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}
