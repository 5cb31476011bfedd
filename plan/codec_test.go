package plan

import (
	"encoding/binary"
	"testing"
)

// Bytes that are well packed but say what no plan says.
func TestUnmarshalBinary_RefusesHostileContent(t *testing.T) {
	t.Parallel()
	type content struct {
		profiles, steps, profileOf int
		shared                     int
		second                     string
		deps                       int
		back                       int64
		tail                       string
	}
	pack := func(c content) []byte {
		var e encoder
		e.text("p")
		e.text("1.0")
		e.int(0)
		e.int(0)
		e.int(c.profiles)
		e.profile(SkeletonStep{Type: Noop})
		e.int(c.steps)
		e.int(0)
		e.text("a")
		e.int(c.shared)
		e.text(c.second)
		e.int(0)
		e.int(c.profileOf)
		e.int(0)
		e.int(c.deps)
		e.b = binary.AppendVarint(e.b, c.back)
		e.b = append(e.b, c.tail...)
		data, err := deflate(e.b)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	good := content{profiles: 1, steps: 2, second: "b", deps: 1, back: 1}
	var sk Skeleton
	if err := sk.UnmarshalBinary(pack(good)); err != nil || len(sk.Steps) != 2 || sk.Steps[1].Deps[0] != 0 {
		t.Fatalf("the content that the others spoil: %v", err)
	}
	for name, spoil := range map[string]func(c *content){
		"a profile that is not there": func(c *content) { c.profileOf = 1 },
		"more shared than there is":   func(c *content) { c.shared = 9 },
		"one id twice":                func(c *content) { c.second = "a" },
		"no id":                       func(c *content) { c.second = "|" },
		"too many steps":              func(c *content) { c.steps = MaxSteps + 1 },
		"too many profiles":           func(c *content) { c.profiles = MaxSteps + 1 },
		"waits for a step before all": func(c *content) { c.back = 2 },
		"waits for a step after all":  func(c *content) { c.back = -1 },
		"waits for itself":            func(c *content) { c.back = 0 },
		"deps without end":            func(c *content) { c.deps = 1 << 40 },
		"more behind":                 func(c *content) { c.tail = "x" },
	} {
		c := good
		spoil(&c)
		if err := sk.UnmarshalBinary(pack(c)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
