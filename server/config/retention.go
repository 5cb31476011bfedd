package config

import (
	"fmt"
	"maps"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/retention"
)

// planBuckets decodes the setting plan-buckets: by tenant, the addresses of buckets that its references to plans may
// point into. "*" is every tenant.
func planBuckets(setting any) (map[string][]string, error) {
	out := map[string][]string{}
	if setting == nil {
		return out, nil
	}
	if err := strict(setting, &out); err != nil {
		return nil, fmt.Errorf("plan-buckets: %w", err)
	}
	for tenant, addresses := range out {
		for _, address := range addresses {
			if err := artifact.CheckSource(address); err != nil {
				return nil, fmt.Errorf("plan-buckets: %s: %w: write s3://BUCKET, gs://BUCKET or azblob://CONTAINER", tenant, err)
			}
		}
	}
	return out, nil
}

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
		RunsPerMinute int      `json:"runsPerMinute"`
		Share         *float64 `json:"share"`
		Every         string   `json:"every"`
		OverdueAfter  string   `json:"overdueAfter"`
		Wait          string   `json:"destinationsWait"`
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
	if in.Share != nil {
		if out.Share = *in.Share; out.Share <= 0 || out.Share > 1 {
			return out, fmt.Errorf("retention: share must be above 0 and at most 1, such as 0.1, not %v", out.Share)
		}
	}
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
	if in.Wait != "" {
		var err error
		if out.DestinationsWait, err = time.ParseDuration(in.Wait); err != nil || out.DestinationsWait < time.Minute {
			return out, fmt.Errorf("retention: destinationsWait must be a duration of at least 1m, such as 168h, not %q",
				in.Wait)
		}
	}
	if err := out.Check(); err != nil {
		return out, fmt.Errorf("retention: %w", err)
	}
	return out, nil
}
