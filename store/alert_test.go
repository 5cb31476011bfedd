package store_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Each process counts all alerts only when it knows of no place, and notices those of the others.
func TestAlertRoom_CountsRarelyAndPassesNoLimit(t *testing.T) {
	t.Parallel()
	const processes = 16
	rooms, known := make([]store.AlertRoom, processes), [processes]int64{}
	now := time.Now()
	open, counts := 0, 0 // the position of an alert is the number of those before it
	for i := 0; ; i++ {
		room := &rooms[i%processes]
		left, after := room.Left("acme", now)
		if left > 0 && after != known[i%processes] {
			t.Fatalf("process %d counts alerts after %d, want after %d, the last one that it knows", i%processes, after,
				known[i%processes])
		}
		if others := open - int(after); left == 0 || others >= left {
			counts++
			if open >= store.MaxOpenAlerts {
				break
			}
			room.Counted("acme", open, int64(open), now)
			after = int64(open)
		}
		room.Opened("acme", open-int(after), int64(open+1))
		open++
		known[i%processes] = int64(open)
	}
	if open != store.MaxOpenAlerts {
		t.Errorf("%d processes opened %d alerts, want %d", processes, open, store.MaxOpenAlerts)
	}
	if counts > 2*processes {
		t.Errorf("%d alerts took %d counts of all, want two of each process at most", open, counts)
	}
}

func TestAlertRoom_ForgetsACount(t *testing.T) {
	t.Parallel()
	var room store.AlertRoom
	now := time.Now()
	room.Counted("acme", 1, 7, now)
	if left, after := room.Left("acme", now); left != store.MaxOpenAlerts-1 || after != 7 {
		t.Errorf("Left() = %d after %d, want %d after 7", left, after, store.MaxOpenAlerts-1)
	}
	if left, _ := room.Left("globex", now); left != 0 {
		t.Errorf("another tenant has %d places without a count", left)
	}
	if left, _ := room.Left("acme", now.Add(2*time.Minute)); left != 0 {
		t.Errorf("a count of two minutes ago still gives %d places", left)
	}
}
