package ws_test

import (
	"runtime"
	"testing"

	"github.com/dvt-engine/dvt/graph/ws"
)

// An idle viewer of a shared subscription costs one goroutine and little memory.
// The figure holds both ends of the connection.
func TestIdle_MemoryPerViewer(t *testing.T) {
	viewers, most := 2000, 12<<10
	if raced {
		most *= 2 // the race detector keeps notes
	}
	source := newCounter(4 << 10)
	s := start(t, ws.Config{StreamsOfPeer: viewers + 1, Share: sharing(source.open)}, nobody)
	viewer := func() {
		c := s.rawOpen(t)
		c.text(`{"id":"1","type":"subscribe","payload":{"query":"subscription { a }"}}`)
		if _, _, err := readFrame(c); err != nil {
			t.Fatal(err)
		}
	}
	viewer()
	before, goroutines := memory(), runtime.NumGoroutine()
	for range viewers {
		viewer()
	}
	per := (memory() - before) / viewers
	t.Logf("%d bytes per viewer, of both ends", per)
	if per > most {
		t.Errorf("%d bytes per viewer, want at most %d", per, most)
	}
	if n := runtime.NumGoroutine() - goroutines; n > viewers+20 {
		t.Errorf("%d goroutines for %d viewers", n, viewers)
	}
}

// memory is what the heap and the stacks hold.
func memory() int {
	var m runtime.MemStats
	for range 3 { // stacks shrink by half each time
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}
