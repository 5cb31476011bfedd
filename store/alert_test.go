package store_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/store"
)

func TestAlertRoom_CountsRarelyAndPassesNoLimit(t *testing.T) {
	t.Parallel()
	const processes, most = 16, 20
	rooms := make([]store.AlertRoom, processes)
	now := time.Now()
	open, counts := 0, 0
	for i := 0; ; i++ {
		room := &rooms[i%processes]
		if !room.Take("acme", now) {
			counts++
			if open >= store.MaxOpenAlerts {
				break
			}
			room.Counted("acme", open+1, now)
		}
		open++
	}
	if over := open - store.MaxOpenAlerts; over < 0 || over > (processes-1)*most {
		t.Errorf("%d processes opened %d alerts, want at most %d over %d", processes, open, (processes-1)*most,
			store.MaxOpenAlerts)
	}
	if counts > store.MaxOpenAlerts/10 {
		t.Errorf("%d alerts took %d counts, want fewer than one in ten", open, counts)
	}
}

func TestAlertRoom_ForgetsACount(t *testing.T) {
	t.Parallel()
	var room store.AlertRoom
	now := time.Now()
	room.Counted("acme", 0, now)
	if !room.Take("acme", now) || room.Take("globex", now) {
		t.Error("the room of one tenant is not its own")
	}
	if room.Take("acme", now.Add(2*time.Minute)) {
		t.Error("a count of two minutes ago is still believed")
	}
}
