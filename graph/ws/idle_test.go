package ws_test

import (
	"runtime"
	"testing"

	"github.com/dvt-engine/dvt/graph/ws"
)

// The measured memory includes both ends of the connection.
func TestIdleViewer_CostsOneGoroutineAndLittleMemory(t *testing.T) {
	viewers, most := 2000, 12<<10
	if raced {
		most *= 2 // the race detector needs memory too
	}
	source := newCounter(4 << 10)
	s := start(t, ws.Config{StreamsOfPeer: viewers + 1, Share: sharing(source.open)}, panicIfAlone)
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
	t.Logf("%d bytes per viewer, both ends", per)
	if per > most {
		t.Errorf("a viewer costs %d bytes, want at most %d", per, most)
	}
	if n := runtime.NumGoroutine() - goroutines; n > viewers+20 {
		t.Errorf("%d goroutines for %d viewers, want one each", n, viewers)
	}
}

// memory returns the bytes of heap and stacks in use.
func memory() int {
	var m runtime.MemStats
	for range 3 { // each collection shrinks stacks by half
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}
