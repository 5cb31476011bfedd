package plan

import (
	"encoding/binary"
	"testing"
)

// UnmarshalBinary refuses content that is deflated correctly but cannot come from a plan.
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
		t.Fatalf("UnmarshalBinary() of the valid content: %v, want two steps with one dependency", err)
	}
	for name, spoil := range map[string]func(c *content){
		"unknown profile":                  func(c *content) { c.profileOf = 1 },
		"shared prefix longer than the id": func(c *content) { c.shared = 9 },
		"duplicate id":                     func(c *content) { c.second = "a" },
		"invalid id":                       func(c *content) { c.second = "|" },
		"too many steps":                   func(c *content) { c.steps = MaxSteps + 1 },
		"too many profiles":                func(c *content) { c.profiles = MaxSteps + 1 },
		"dependency before the first step": func(c *content) { c.back = 2 },
		"dependency after the last step":   func(c *content) { c.back = -1 },
		"dependency on itself":             func(c *content) { c.back = 0 },
		"more dependencies than bytes":     func(c *content) { c.deps = 1 << 40 },
		"bytes after the end":              func(c *content) { c.tail = "x" },
	} {
		c := good
		spoil(&c)
		if err := sk.UnmarshalBinary(pack(c)); err == nil {
			t.Errorf("%s: UnmarshalBinary() accepted it, want an error", name)
		}
	}
}
