package artifact

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Ability is an operation of a bucket, as Inspect tried it.
type Ability struct {
	Name string // such as "write objects"
	Err  error  // nil: it works
}

// The abilities of a bucket.
const (
	AbilityWrite     = "write objects"
	AbilityRead      = "read objects"
	AbilityRange     = "read a part of an object"
	AbilityList      = "list objects"
	AbilityCondition = "refuse to overwrite an object (If-None-Match)"
	AbilityDelete    = "delete objects"
)

// Inspected is what Inspect learned about a bucket.
type Inspected struct {
	Abilities []Ability
	// Versions is "on" or "off", or empty when the service or the rights of this process do not tell.
	Versions string
}

// Inspect tries each ability with one small object and removes it. Without list, read and the rest it tries what it
// can. With listOnly it writes nothing: that is for buckets in which this process must not delete. Errors of Inspect
// itself are those of the address; they quote no value of it.
func Inspect(ctx context.Context, address string, listOnly bool) (out Inspected, err error) {
	u, err := parseAddress(address)
	if err != nil {
		return out, err
	}
	b, err := openBucket(ctx, u)
	if err != nil {
		return out, err
	}
	defer b.Close()
	try := func(name string, f func() error) bool {
		err := f()
		if err != nil {
			err = errors.New(describe(err))
		}
		out.Abilities = append(out.Abilities, Ability{name, err})
		return err == nil
	}
	key := probePrefix + "preflight-" + rand.Text()
	list := func() error {
		_, err := b.List(&blob.ListOptions{Prefix: key}).Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	out.Versions = b.versions(ctx)
	if listOnly {
		try(AbilityList, list)
		return out, nil
	}
	wrote := try(AbilityWrite, func() error {
		return b.write(ctx, key, strings.NewReader("dvt"), blob.WriterOptions{})
	})
	if wrote {
		try(AbilityRead, func() error { return b.expect(ctx, key, 0, -1, "dvt") })
		try(AbilityRange, func() error { return b.expect(ctx, key, 1, 2, "vt") })
		try(AbilityCondition, func() error { return b.refuseOverwrite(ctx, key) })
	}
	try(AbilityList, list)
	if wrote {
		try(AbilityDelete, func() error { return b.Delete(context.WithoutCancel(ctx), key) })
	}
	return out, nil
}

// expect returns an error unless a part of an object is want.
func (b bucket) expect(ctx context.Context, key string, offset, length int64, want string) error {
	got, err := b.readRange(ctx, key, offset, length)
	if err == nil && string(got) != want {
		err = fmt.Errorf("the bucket answers %d bytes other than those that were written", len(got))
	}
	return err
}

// refuseOverwrite returns an error unless the bucket refuses a conditional write of an object that exists.
func (b bucket) refuseOverwrite(ctx context.Context, key string) error {
	err := b.write(ctx, key, strings.NewReader("dvt"), blob.WriterOptions{IfNotExist: true})
	switch {
	case err == nil:
		return errors.New("the bucket overwrote an object that exists")
	case gcerrors.Code(err) == gcerrors.FailedPrecondition:
		return nil
	}
	return err
}

// versions returns whether the bucket keeps versions of objects, as in Inspected.
func (b bucket) versions(ctx context.Context) string {
	state := func(on bool) string {
		if on {
			return "on"
		}
		return "off"
	}
	var amazon *s3.Client
	if b.As(&amazon) {
		answer, err := amazon.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &b.name})
		if err != nil {
			return ""
		}
		return state(answer.Status == "Enabled")
	}
	var google *storage.Client
	if b.As(&google) {
		attributes, err := google.Bucket(b.name).Attrs(ctx)
		if err != nil {
			return ""
		}
		return state(attributes.VersioningEnabled)
	}
	return ""
}
