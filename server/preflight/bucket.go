package preflight

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"

	"github.com/dvt-engine/dvt/artifact"
)

func (t *target) buckets(ctx context.Context, l *list) {
	t.bucket(ctx, l, "artifacts", t.Artifacts, false)
	if t.AuditHeads != "" {
		t.bucket(ctx, l, "audit-heads", t.AuditHeads, true)
	}
	if t.ErasureLedger != "" {
		t.bucket(ctx, l, "erasure-ledger", t.ErasureLedger, true)
	}
}

// bucket tries a bucket. An append-only one is only listed, because this process must not be able to remove a probe.
func (t *target) bucket(ctx context.Context, l *list, setting, address string, appendOnly bool) {
	if u, err := url.Parse(address); err == nil && (u.Scheme == "file" || u.Scheme == "") {
		if _, err := os.Stat(u.Path); errors.Is(err, fs.ErrNotExist) && (appendOnly || u.Query().Has("create_dir")) {
			l.note(setting, "the directory "+u.Path+" does not exist yet", "the process creates it when it starts",
				"mount the shared file system there first, if several machines use it")
			return
		}
		if appendOnly && u.Scheme == "" {
			address = (&url.URL{Scheme: "file", Path: u.Path}).String()
		}
	}
	found, err := artifact.Inspect(ctx, address, appendOnly)
	if err != nil {
		l.missing(setting, err.Error(), "logs and artifacts of steps are kept there", "correct the setting "+setting)
		return
	}
	broken := false
	for _, a := range found.Abilities {
		switch {
		case a.Err == nil:
		case a.Name == artifact.AbilityCondition:
			l.note(setting, "the bucket does not "+a.Name+": "+a.Err.Error(),
				"the setting audit-heads and erasure-ledger need it in their buckets", "keep those two in another service")
		default:
			broken = true
			l.missing(setting, "this process cannot "+a.Name+": "+a.Err.Error(), "logs and artifacts of steps are kept there",
				bucketRights(address))
		}
	}
	if !broken && appendOnly {
		l.ok(setting, "the bucket can be listed; writing is not tried, because nobody may delete there")
	} else if !broken {
		l.ok(setting, "write, read, read a part, list and delete work")
	}
	switch found.Versions {
	case "on":
		l.ok(setting+" versions", "the bucket keeps versions of objects")
	case "off":
		l.note(setting+" versions", "the bucket keeps no versions of objects",
			"an object that is overwritten or deleted cannot be restored",
			"switch versioning on, with a lifecycle rule that removes old versions after 30 days")
	}
}

// bucketRights names the rights that a process needs in a bucket of a service.
func bucketRights(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "correct the address of the bucket"
	}
	switch u.Scheme {
	case "s3":
		return "allow s3:ListBucket on arn:aws:s3:::" + u.Host + " and s3:GetObject, s3:PutObject, s3:DeleteObject and " +
			"s3:AbortMultipartUpload on arn:aws:s3:::" + u.Host + "/*; check region, endpoint and credentials"
	case "gs":
		return "gcloud storage buckets add-iam-policy-binding gs://" + u.Host + " --member=… --role=roles/storage.objectUser"
	case "azblob":
		return "az role assignment create --role 'Storage Blob Data Contributor' --scope … on the container " + u.Host
	}
	return "chown the directory " + u.Path + " to the user of dvt, with mode 0700"
}
