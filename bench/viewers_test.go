package main

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/google/go-cmp/cmp"
)

// serverFrame returns an unmasked frame, as a server sends it.
func serverFrame(op byte, final bool, text string) []byte {
	if final {
		op |= 0x80
	}
	f := []byte{op}
	switch n := len(text); {
	case n < 126:
		f = append(f, byte(n))
	case n < 1<<16:
		f = binary.BigEndian.AppendUint16(append(f, 126), uint16(n))
	default:
		f = binary.BigEndian.AppendUint64(append(f, 127), uint64(n))
	}
	return append(f, text...)
}

// update returns a message with a runSeq and the given size in bytes.
func update(seq, size int) string {
	text := fmt.Sprintf(`{"payload":{"data":{"runUpdates":{"runSeq":%d,"more":"`, seq)
	return text + strings.Repeat("x", size-len(text)-5) + `"}}}}`
}

func TestViewers_ParseUpdatesHoweverReadsSplitThem(t *testing.T) {
	t.Parallel()
	var stream []byte
	add := func(f ...byte) { stream = append(stream, f...) }
	add(serverFrame(opText, true, `{"type":"connection_ack"}`)...)
	add(serverFrame(opText, true, update(7, 100))...)
	add(serverFrame(opPong, true, "")...)
	long := update(8, 4000)
	add(serverFrame(opText, false, long[:1500])...)
	add(serverFrame(opContinued, false, "")...)
	add(serverFrame(opContinued, true, long[1500:])...)
	add(serverFrame(opText, true, update(8, 300))...)
	add(serverFrame(opText, true, update(11, 70_000))...)
	for _, size := range []int{1, 2, 3, 7, 130, 4096, len(stream)} {
		v := &viewers{dialect: dialect{welcome: `"runSeq":`}}
		kept, cut := &viewer{first: true}, &viewer{}
		v.all = []*viewer{kept, cut}
		v.expect(8)
		for _, w := range v.all {
			for rest := stream; len(rest) > 0; {
				n := min(size, len(rest))
				v.receive(w, rest[:n])
				rest = rest[n:]
			}
		}
		var steps [][2]int64
		for _, a := range v.arrivals {
			steps = append(steps, [2]int64{a.after, a.to})
		}
		want := [][2]int64{{0, 7}, {7, 8}, {8, 11}, {0, 7}, {7, 8}, {8, 11}}
		if diff := cmp.Diff(want, steps); diff != "" || v.err != nil {
			t.Errorf("reads of %d bytes: error %v, arrivals (-want +got):\n%s", size, v.err, diff)
		}
		got := []int64{v.messages, v.bytes, int64(v.ready), int64(v.reached)}
		if diff := cmp.Diff([]int64{8, 2 * (100 + 4000 + 300 + 70_000), 2, 2}, got); diff != "" {
			t.Errorf("reads of %d bytes: messages, bytes, ready, reached (-want +got):\n%s", size, diff)
		}
		if v.last != update(11, 70_000) {
			t.Errorf("reads of %d bytes: the last message of the first viewer has %d bytes, want the last update", size, len(v.last))
		}
	}
}

func TestViewers_ReportWhyTheServerEndedThem(t *testing.T) {
	t.Parallel()
	for text, frame := range map[string][]byte{
		"disconnected": serverFrame(opClose, true, "\x03\xf5too slow"),
		"too slow":     serverFrame(opClose, true, "\x03\xf5too slow"),
		"NOT_FOUND":    serverFrame(opText, true, `{"id":"1","type":"error","payload":[{"code":"NOT_FOUND"}]}`),
		"complete":     serverFrame(opText, true, `{"id":"1","type":"complete"}`),
	} {
		v := &viewers{}
		v.receive(&viewer{}, frame)
		if v.err == nil || !strings.Contains(v.err.Error(), text) {
			t.Errorf("error is %v, want it to contain %q", v.err, text)
		}
	}
}

func TestTemplate_ReplacesOnlyTheSeq(t *testing.T) {
	t.Parallel()
	if got := string(newTemplate(update(7, 100)).with(123)); got != strings.Replace(update(7, 100), `:7,`, `:123,`, 1) {
		t.Errorf("the message is %s, want the same with runSeq 123", got)
	}
}

// The deltas on the bus must lead to the same state as the store returns.
func TestMemoryRun_DeltasLeadToTheStateOfTheStore(t *testing.T) {
	t.Parallel()
	r, err := newMemoryRun(rig.RunName(3), 4)
	if err != nil {
		t.Fatal(err)
	}
	m := &memoryLive{runs: map[string]*memoryRun{rig.RunName(3): r}}
	before, _, err := m.Since(t.Context(), rig.RunName(3), 0)
	if err != nil || before.State.RunID != rig.RunName(3) || before.State.Counts.Success != 4 ||
		len(before.State.Steps) != 4 {
		t.Fatalf("the run is %+v, error %v; want 4 successful steps", before.State, err)
	}
	s := before.State
	for range 10 {
		msg := r.advance(before.Now)
		if s, _ = s.Apply(*msg.Delta); s.Seq != msg.To {
			t.Fatalf("the delta to %d led to seq %d", msg.To, s.Seq)
		}
	}
	after, _, err := m.Since(t.Context(), rig.RunName(3), 0)
	if diff := cmp.Diff(after.State, s); diff != "" || err != nil {
		t.Errorf("error %v, state of the store and state after the deltas differ (-want +got):\n%s", err, diff)
	}
}
