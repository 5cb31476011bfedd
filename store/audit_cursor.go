package store

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrCursor is the error of AuditObjects when AuditObjectFilter.After is not a cursor of that kind of objects.
var ErrCursor = errors.New("store: invalid cursor")

// ParseNumberCursor returns the number in a cursor. For "" it returns the smallest number, because a forged object may
// have a number below 1 and must be compared, too. Error: ErrCursor.
func ParseNumberCursor(cursor string) (int64, error) {
	if cursor == "" {
		return math.MinInt64, nil
	}
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q", ErrCursor, cursor)
	}
	return n, nil
}

// SettingCursor returns the cursor of a setting for AuditObjectFilter.After.
func SettingCursor(kind SettingKind, version int64) string {
	return fmt.Sprintf("%s/%d", kind, version)
}

// ParseSettingCursor returns the kind and the version in the cursor of a setting. It splits at the last slash, because
// a forged kind may contain slashes. Error: ErrCursor.
func ParseSettingCursor(cursor string) (kind string, version int64, err error) {
	if cursor == "" {
		return "", math.MinInt64, nil
	}
	slash := strings.LastIndexByte(cursor, '/')
	if slash < 0 || slash == len(cursor)-1 {
		return "", 0, fmt.Errorf("%w: %q", ErrCursor, cursor)
	}
	version, err = ParseNumberCursor(cursor[slash+1:])
	return cursor[:slash], version, err
}

// SignalCursor returns the cursor of a signal for AuditObjectFilter.After: the length of the run id, a slash and both
// ids. A forged id may contain any separator.
func SignalCursor(runID, signalID string) string {
	return fmt.Sprintf("%d/%s%s", len(runID), runID, signalID)
}

// ParseSignalCursor returns the ids in the cursor of a signal; "" gives "" and "". Error: ErrCursor.
func ParseSignalCursor(cursor string) (runID, signalID string, err error) {
	if cursor == "" {
		return "", "", nil
	}
	number, ids, _ := strings.Cut(cursor, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > len(ids) {
		return "", "", fmt.Errorf("%w: %q", ErrCursor, cursor)
	}
	return ids[:n], ids[n:], nil
}
