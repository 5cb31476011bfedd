// Package secrettest is the suite that every provider of secrets passes.
package secrettest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
)

// World is a provider and the system behind it.
type World struct {
	Provider secret.Provider
	// Put stores the next version of a secret and returns the version's name; "" when the system has no versions.
	Put func(path string, fields map[string]string) (version string)
	// PutBytes stores the next version of a secret that is no text; nil when the system stores texts only.
	PutBytes func(path string, value []byte)
	// Whole says that a secret is one text. A JSON object then has its fields, and the text is the field
	// plan.DefaultSecretField too.
	Whole bool
	// Throttle lets the system refuse the next read in the words of its own protocol; nil when it never does so.
	Throttle func()
	// Network is between the provider and its system; nil when there is none.
	Network *Network
	// Forbid denies the provider a path, for good; nil when the system denies nothing.
	Forbid func(path string)
	// Break stops the system, for good.
	Break func()
}

const canary = "canary-5b1d9c20"

// Run runs the suite. open returns a world of its own for each test.
func Run(t *testing.T, open func(t *testing.T) World) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, World){
		"reads fields": readsFields, "knows what is missing": knowsWhatIsMissing, "reads versions": readsVersions,
		"sees a new value": seesANewValue, "denies": denies, "says that it is down": saysThatItIsDown,
		"serves many at once": servesManyAtOnce, "reads bytes": readsBytes, "reads a document": readsADocument,
		"waits while it is throttled": waitsWhileItIsThrottled, "survives the network": survivesTheNetwork,
		"sees a rotation during an attempt": seesARotation, "keeps tenants apart": keepsTenantsApart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func readsFields(t *testing.T, w World) {
	w.Put("t1/dev/db", map[string]string{"user": "ann", "password": canary})
	w.Put("t1/dev/deep/er/token", map[string]string{plan.DefaultSecretField: "a\nb \"c\" €"})
	wantFields(t, w, "t1/dev/db", "", map[string]string{"user": "ann", "password": canary})
	wantFields(t, w, "t1/dev/deep/er/token", "", map[string]string{plan.DefaultSecretField: "a\nb \"c\" €"})
	if err := w.Provider.Check(t.Context()); err != nil {
		t.Errorf("a provider that answers says %v", err)
	}
}

func knowsWhatIsMissing(t *testing.T, w World) {
	w.Put("t1/dev/db", map[string]string{"password": canary})
	for _, path := range []string{"t1/dev/other", "t1/dev/db/more", "t1/dev", "t2/dev/db"} {
		wantError(t, w, path, "", secret.ErrNotFound)
	}
	wantError(t, w, "t1/dev/db", "99", secret.ErrNotFound)
	wantError(t, w, "t1/dev/db", "no-version", secret.ErrNotFound)
}

func readsVersions(t *testing.T, w World) {
	first := w.Put("t1/dev/key", map[string]string{"value": "old-" + canary})
	if first == "" {
		t.Log("the system has no versions")
		return
	}
	second := w.Put("t1/dev/key", map[string]string{"value": "new-" + canary})
	wantFields(t, w, "t1/dev/key", first, map[string]string{"value": "old-" + canary})
	wantFields(t, w, "t1/dev/key", second, map[string]string{"value": "new-" + canary})
	wantFields(t, w, "t1/dev/key", "", map[string]string{"value": "new-" + canary})
}

func seesANewValue(t *testing.T, w World) {
	w.Put("t1/dev/key", map[string]string{"value": "old-" + canary})
	wantFields(t, w, "t1/dev/key", "", map[string]string{"value": "old-" + canary})
	w.Put("t1/dev/key", map[string]string{"value": "new-" + canary})
	wantFields(t, w, "t1/dev/key", "", map[string]string{"value": "new-" + canary})
}

func denies(t *testing.T, w World) {
	if w.Forbid == nil {
		t.Log("the system denies nothing")
		return
	}
	w.Put("t1/dev/key", map[string]string{"value": canary})
	w.Forbid("t1/dev/key")
	wantError(t, w, "t1/dev/key", "", secret.ErrDenied)
}

func saysThatItIsDown(t *testing.T, w World) {
	w.Put("t1/dev/key", map[string]string{"value": canary})
	w.Break()
	_, err := w.Provider.Read(t.Context(), "t1/dev/key", "")
	if err == nil || errors.Is(err, secret.ErrNotFound) || errors.Is(err, secret.ErrDenied) {
		t.Errorf("a system that is down answered %v, want an error that may go away", err)
	}
	if err := w.Provider.Check(t.Context()); err == nil {
		t.Error("the check of a system that is down found nothing")
	}
}

func servesManyAtOnce(t *testing.T, w World) {
	for i := range 10 {
		w.Put(fmt.Sprintf("t1/dev/key%d", i), map[string]string{"value": fmt.Sprint(i, canary)})
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			wantFields(t, w, fmt.Sprintf("t1/dev/key%d", i%10), "", map[string]string{"value": fmt.Sprint(i%10, canary)})
		})
	}
	all.Wait()
}

func wantFields(t *testing.T, w World, path, version string, want map[string]string) {
	t.Helper()
	answer, err := w.Provider.Read(t.Context(), path, version)
	if err != nil {
		t.Errorf("read %s@%s: %v", path, version, err)
		return
	}
	got := map[string]string{}
	for name, v := range answer.Fields {
		got[name] = v.Reveal()
	}
	if _, own := want[plan.DefaultSecretField]; w.Whole && !own {
		delete(got, plan.DefaultSecretField)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s@%s (-want +got):\n%s", path, version, diff)
	}
}

func wantError(t *testing.T, w World, path, version string, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := w.Provider.Read(ctx, path, version)
	if !errors.Is(err, want) {
		t.Errorf("read %s@%s: %v, want %v", path, version, err, want)
	}
	if err != nil && strings.Contains(err.Error(), canary) {
		t.Errorf("the error contains the value of a secret: %v", err)
	}
}
