package plan

import (
	"encoding/json"
	"time"
	_ "time/tzdata" // images have no zones of their own
)

// Deadline is when a run of a plan should have ended: by a time of the day in a zone, or within a time after its start.
// Exactly one of By and Within is set. A run that misses it goes on; people are told.
type Deadline struct {
	By     string        `json:"by,omitempty"`     // such as "06:00"
	Zone   string        `json:"zone,omitempty"`   // of By, such as "Europe/Zurich"; never empty with it
	Within time.Duration `json:"within,omitempty"` // at most MaxTimeout
}

// clockTime is the layout of Deadline.By.
const clockTime = "15:04"

// Due returns when a run should have ended. The time of the day is the first one after the run was created, so that a
// run which waited in a queue across it is late. A time that a change of the clocks leaves out is moved by that change.
func (d Deadline) Due(created, started time.Time) time.Time {
	if d.By == "" {
		return started.Add(d.Within).UTC()
	}
	zone, err := time.LoadLocation(d.Zone)
	by, bad := time.Parse(clockTime, d.By)
	if err != nil || bad != nil { // Parse refuses it
		return time.Time{}
	}
	for day := 0; ; day++ {
		in := created.In(zone)
		due := time.Date(in.Year(), in.Month(), in.Day()+day, by.Hour(), by.Minute(), 0, 0, zone)
		if due.After(created) {
			return due.UTC()
		}
	}
}

func (r *reader) deadline(v value, p *at) *Deadline {
	o, ok := r.object(v, p)
	if !ok {
		return nil
	}
	var d Deadline
	if v, vp, ok := o.take("by"); ok {
		if d.By, ok = r.text(v, vp); ok {
			if t, err := time.Parse(clockTime, d.By); err != nil || t.Format(clockTime) != d.By {
				r.report(vp, CodeInvalid, `write a time of the day from "00:00" to "23:59"`)
			}
		}
	}
	if v, vp, ok := o.take("zone"); ok {
		if d.Zone, ok = r.text(v, vp); ok {
			if _, err := time.LoadLocation(d.Zone); err != nil || d.Zone == "" || d.Zone == "Local" || len(d.Zone) > maxText {
				r.report(vp, CodeInvalid, `write the name of a time zone, such as "Europe/Zurich" or "UTC"`)
			}
		}
	}
	if v, vp, ok := o.take("within"); ok {
		d.Within = r.duration(v, vp)
	}
	switch {
	case (d.By == "") == (d.Within == 0):
		r.report(p, CodeInvalid, `write by, such as "06:00", with its zone, or within, such as "2h"`)
	case d.By != "" && d.Zone == "":
		r.report(p.field("zone"), CodeInvalid, `write the time zone of by, such as "Europe/Zurich" or "UTC"`)
	case d.By == "" && d.Zone != "":
		r.report(p.field("zone"), CodeInvalid, "leave the time zone out: within counts from the start of the run")
	}
	o.end()
	return &d
}

// MarshalJSON writes Within as a Go duration, so that Parse reads the result as the same deadline.
func (d Deadline) MarshalJSON() ([]byte, error) {
	out := map[string]string{}
	for name, text := range map[string]string{"by": d.By, "zone": d.Zone} {
		if text != "" {
			out[name] = text
		}
	}
	if d.Within > 0 {
		out["within"] = DurationText(d.Within)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the output of MarshalJSON. It validates nothing; documents of planners must go through Parse.
func (d *Deadline) UnmarshalJSON(b []byte) error {
	var in struct{ By, Zone, Within string }
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	d.By, d.Zone = in.By, in.Zone
	if in.Within == "" {
		return nil
	}
	within, err := time.ParseDuration(in.Within)
	d.Within = within
	return err
}
