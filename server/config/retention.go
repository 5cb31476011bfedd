package config

import (
	"fmt"
	"maps"
	"time"

	"github.com/dvt-engine/dvt/control/retention"
)

// retentionPolicy decodes the setting retention over the defaults. `dvt dev` keeps everything unless it is set. An
// unknown key is an error.
func retentionPolicy(setting any, dev bool) (retention.Installation, error) {
	out := retention.Installation{Document: retention.DefaultDocument()}
	if dev {
		out.Document = retention.KeepAll()
	}
	if setting == nil {
		return out, nil
	}
	in := struct {
		retention.Document
		RunsPerMinute int    `json:"runsPerMinute"`
		Every         string `json:"every"`
		OverdueAfter  string `json:"overdueAfter"`
	}{Document: out.Document}
	kinds := maps.Clone(out.Document.Artifacts)
	if err := strict(setting, &in); err != nil {
		return out, fmt.Errorf("retention: %w", err)
	}
	if kinds == nil {
		kinds = map[string]int{}
	}
	maps.Copy(kinds, in.Artifacts)
	in.Artifacts = kinds
	out.Document, out.RunsPerMinute = in.Document, in.RunsPerMinute
	if in.Every != "" {
		var err error
		if out.Every, err = time.ParseDuration(in.Every); err != nil || out.Every < time.Minute {
			return out, fmt.Errorf("retention: every must be a duration of at least 1m, such as 1h, not %q", in.Every)
		}
	}
	if in.OverdueAfter != "" {
		var err error
		if out.OverdueAfter, err = time.ParseDuration(in.OverdueAfter); err != nil || out.OverdueAfter < time.Hour {
			return out, fmt.Errorf("retention: overdueAfter must be a duration of at least 1h, such as 24h, not %q",
				in.OverdueAfter)
		}
	}
	if err := out.Check(); err != nil {
		return out, fmt.Errorf("retention: %w", err)
	}
	return out, nil
}
