package storetest

import (
	"errors"
	"time"

	"github.com/dvt-engine/dvt/store"
)

var cursorCases = []testCase{
	{"CursorKeepsItsPosition", testCursorKeepsItsPosition},
	{"CursorIsLeasedToOneOwner", testCursorIsLeasedToOneOwner},
}

func testCursorKeepsItsPosition(f *fixture) {
	c, err := f.store.LeaseCursor(f.ctx(), "trace", "a", time.Minute)
	f.ok(err)
	f.equal(store.Cursor{Name: "trace", Owner: "a", Generation: 1}, c, "the first lease")
	c.Position = "p1"
	f.ok(f.store.SaveCursor(f.ctx(), c, time.Minute))
	again, err := f.store.LeaseCursor(f.ctx(), "trace", "a", time.Minute)
	f.ok(err)
	f.equal(store.Cursor{Name: "trace", Owner: "a", Generation: 2, Position: "p1"}, again,
		"the lease of a restarted owner")
	other, err := f.store.LeaseCursor(f.ctx(), "webhook", "b", time.Minute)
	f.ok(err)
	f.equal("", other.Position, "the position of another consumer")
}

func testCursorIsLeasedToOneOwner(f *fixture) {
	old, err := f.store.LeaseCursor(f.ctx(), "trace", "a", time.Minute)
	f.ok(err)
	conflict := func(err error, what string) {
		f.Helper()
		f.equal(true, errors.Is(err, store.ErrConflict), what+": ErrConflict")
	}
	_, err = f.store.LeaseCursor(f.ctx(), "trace", "b", time.Minute)
	conflict(err, "a lease while another owner holds it")
	f.ok(f.store.SaveCursor(f.ctx(), old, -time.Minute)) // it expires
	now, err := f.store.LeaseCursor(f.ctx(), "trace", "b", time.Minute)
	f.ok(err)
	conflict(f.store.SaveCursor(f.ctx(), old, time.Minute), "a save by the owner before")
	conflict(f.store.ReleaseCursor(f.ctx(), old), "a release by the owner before")
	f.ok(f.store.ReleaseCursor(f.ctx(), now))
	_, err = f.store.LeaseCursor(f.ctx(), "trace", "a", time.Minute)
	f.ok(err)
}
