package erasure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/store/subject"
)

// Ledger is the list of erasures outside the store, in a bucket or a directory that no restore of the store changes. A
// document is written once and never replaced. It is safe for concurrent use.
type Ledger struct {
	archive *artifact.Archive
	keys    *subject.Keyring
}

// entry is one document of the ledger: that an erasure began, or that it ended.
type entry struct {
	ID          string            `json:"id"`
	Kind        store.ErasureKind `json:"kind"`
	Finished    bool              `json:"finished"`
	HashKey     string            `json:"hashKey"`
	TenantHash  string            `json:"tenantHash"`
	SubjectHash string            `json:"subjectHash,omitempty"`
	Lookups     []string          `json:"lookups,omitempty"` // of the keys of the person
	RequestedBy string            `json:"requestedBy"`
	ConfirmedBy string            `json:"confirmedBy"`
	// MAC is a hash of the other fields with the key of the installation, so that nobody who can only write to the bucket
	// can have something erased.
	MAC string `json:"mac"`
}

// hashed marks the hash of a name that is not known, after a restore.
const hashed = "hash:"

// OpenLedger opens the ledger at a bucket URL. The caller closes it. A directory that does not exist is an error: an
// empty ledger in its place would let a restored store serve whom it should have erased.
func OpenLedger(ctx context.Context, bucketURL string, keys *subject.Keyring) (*Ledger, error) {
	if keys == nil {
		return nil, errors.New("erasure-ledger needs subject-keys-file: the ledger names what was erased by a hash with that key")
	}
	archive, err := artifact.ReadArchive(ctx, bucketURL)
	if err != nil {
		return nil, fmt.Errorf("open the ledger of erasures: %w", err)
	}
	return &Ledger{archive, keys}, nil
}

// Close releases the bucket.
func (l *Ledger) Close() error { return l.archive.Close() }

func (r *Runner) entryOf(e store.Erasure, finished bool) entry {
	out := entry{ID: e.ID, Kind: e.Kind, Finished: finished}
	name := func(kind, name string) string {
		if hash, ok := strings.CutPrefix(name, hashed); ok {
			return hash
		}
		key, hash := r.cfg.Keys.Hash(kind, e.TenantID, name)
		out.HashKey = key
		return hash
	}
	out.TenantHash = name("tenant", "")
	if e.Subject != "" {
		out.SubjectHash, out.Lookups = name("subject", e.Subject), r.cfg.Keys.Lookups(e.TenantID, e.Subject)
	}
	out.RequestedBy, out.ConfirmedBy = name("person", e.RequestedBy), name("person", e.ConfirmedBy)
	return out
}

func (e entry) parts() []string {
	return append([]string{"ledger", e.ID, string(e.Kind), fmt.Sprint(e.Finished), e.TenantHash, e.SubjectHash,
		e.RequestedBy, e.ConfirmedBy}, e.Lookups...)
}

// write writes an entry, unless the ledger has it.
func (l *Ledger) write(ctx context.Context, e entry) error {
	mac, err := l.keys.HashBy(e.HashKey, e.parts()...)
	if err != nil {
		return err
	}
	e.MAC = mac
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	state := "begun"
	if e.Finished {
		state = "finished"
	}
	err = l.archive.Write(ctx, "erasure-"+e.ID+"-"+state+".json", body)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("the ledger of erasures was not written, so nothing is erased: %w", err)
	}
	return nil
}

// read returns the entries by the id of the erasure; the entry of its end where there is one. An entry that the keys of
// this installation did not write is an error, because an erasure that is left out would bring somebody back.
func (l *Ledger) read(ctx context.Context) (map[string]entry, error) {
	out := map[string]entry{}
	err := l.archive.Walk(ctx, func(name string, body []byte) error {
		var e entry
		if err := json.Unmarshal(body, &e); err != nil {
			return fmt.Errorf("the entry %s of the ledger of erasures cannot be read: %w", name, err)
		}
		mac, err := l.keys.HashBy(e.HashKey, e.parts()...)
		if err != nil || mac != e.MAC {
			return fmt.Errorf("the entry %s of the ledger of erasures was not written with subject-keys of this installation: "+
				"keep every key that ever sealed, behind the first one", name)
		}
		if !out[e.ID].Finished {
			out[e.ID] = e
		}
		return nil
	})
	return out, err
}

// RestoredError says that the store lacks erasures of the ledger, as after the restore of a backup.
type RestoredError struct{ IDs []string }

// Error implements error.
func (e *RestoredError) Error() string {
	return fmt.Sprintf("the store is older than %d erasures of the ledger (%s): it holds data of erased tenants or people, as "+
		"after a restore; run dvt store replay-erasures as the owner of the database, then start again", len(e.IDs),
		strings.Join(e.IDs, ", "))
}

// Requests reads erasures of the store.
type Requests interface {
	Erasures(ctx context.Context, f store.ErasureFilter) ([]store.Erasure, error)
}

// Check compares the store with the ledger before a server serves anybody. Error: *RestoredError when an erasure of the
// ledger is missing in the store, has not started there, or ended and has not ended there. An erasure that people
// cancelled before it started is no difference.
func (l *Ledger) Check(ctx context.Context, s Requests) error {
	missing, err := l.missing(ctx, s)
	if err != nil || len(missing) == 0 {
		return err
	}
	out := &RestoredError{}
	for _, e := range missing {
		out.IDs = append(out.IDs, e.ID)
	}
	return out
}

func (l *Ledger) missing(ctx context.Context, s Requests) (out []entry, err error) {
	entries, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	known := map[string]store.Erasure{}
	look := func() error {
		found, err := s.Erasures(ctx, store.ErasureFilter{IDs: ids, Limit: store.MaxPage})
		for _, e := range found {
			known[e.ID] = e
		}
		ids = ids[:0]
		return err
	}
	for id := range entries {
		if ids = append(ids, id); len(ids) == store.MaxPage {
			if err := look(); err != nil {
				return nil, err
			}
		}
	}
	if err := look(); err != nil {
		return nil, err
	}
	for id, e := range entries {
		k, ok := known[id]
		// The entry is written before the erasure starts. People may cancel it in between, and then it never started: a store
		// that has the decision refuses the start.
		if ok && k.CancelledAt != nil && k.StartedAt == nil && !e.Finished {
			continue
		}
		if !ok || k.StartedAt == nil || e.Finished && k.FinishedAt == nil {
			out = append(out, e)
		}
	}
	return out, nil
}

// Replayed is the result of Replay.
type Replayed struct {
	Erasures int `json:"erasures"` // of the ledger that the store lacked
	// Certificates are those of the repeated erasures of tenants that the store has, and of people.
	Certificates []json.RawMessage `json:"certificates"`
}

// Replay repeats the erasures of the ledger that the store lacks, and continues those that it has begun. It needs no
// further confirmation: two people confirmed each of them. No server may run meanwhile.
func (r *Runner) Replay(ctx context.Context, s Requests) (out Replayed, err error) {
	if err := r.cfg.Owner.CheckRights(ctx); err != nil {
		return out, err
	}
	missing, err := r.cfg.Ledger.missing(ctx, s)
	if err != nil {
		return out, err
	}
	tenants, err := r.cfg.Owner.Tenants(ctx)
	if err != nil {
		return out, err
	}
	for _, e := range missing {
		out.Erasures++
		tenant := ""
		for _, t := range tenants {
			hash, err := r.cfg.Keys.HashBy(e.HashKey, "tenant", t, "")
			if err != nil {
				return out, err
			}
			if hash == e.TenantHash {
				tenant = t
			}
		}
		certificate, err := r.replay(ctx, e, tenant)
		if err != nil {
			return out, err
		}
		if certificate != nil {
			out.Certificates = append(out.Certificates, certificate)
		}
	}
	return out, nil
}

// replay repeats one erasure for a tenant of this store; "": the store does not have the tenant.
func (r *Runner) replay(ctx context.Context, e entry, tenant string) (json.RawMessage, error) {
	r.cfg.Logger.InfoContext(ctx, "repeating an erasure of the ledger", slog.String("erasure", e.ID),
		slog.String("kind", string(e.Kind)), slog.Bool("known", tenant != ""))
	now := r.cfg.Now().UTC()
	again := store.Erasure{ID: e.ID, Kind: e.Kind, TenantID: tenant, RequestedBy: hashed + e.RequestedBy,
		ConfirmedBy: hashed + e.ConfirmedBy, RequestedAt: now, ConfirmedAt: &now, Counts: map[string]int64{}}
	if e.Kind == store.EraseSubject && tenant != "" {
		var err error
		if again.Subject, err = r.personOf(ctx, e, tenant); err != nil {
			return nil, err
		}
	}
	if err := r.cfg.Owner.Adopt(ctx, again); err != nil { // it keeps the name for a repetition, which finds no key
		return nil, err
	}
	if e.Kind == store.EraseSubject {
		n, err := r.cfg.Owner.DestroyKeys(ctx, e.Lookups)
		if err != nil {
			return nil, err
		}
		add(&again, "keys", n)
	}
	if tenant == "" || e.Kind == store.EraseSubject && again.Subject == "" {
		again.Phase = PhaseCertify
		return nil, r.cfg.Owner.Finish(ctx, again)
	}
	return r.finish(ctx, again)
}

// personOf finds the person of an entry: by an earlier repetition, by the keys that seal the person's name, or among
// those whom rows name; "": there is none.
func (r *Runner) personOf(ctx context.Context, e entry, tenant string) (string, error) {
	known, err := r.cfg.Owner.Erasure(ctx, e.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) || known.Subject != "" {
		return known.Subject, err
	}
	people, err := r.cfg.Owner.People(ctx, tenant)
	if err != nil {
		return "", err
	}
	keys, err := r.cfg.Owner.Keys(ctx, e.Lookups)
	if err != nil {
		return "", err
	}
	for _, k := range keys {
		people = append(people, r.cfg.Keys.NameOf(k))
	}
	for _, p := range people {
		if hash, err := r.cfg.Keys.HashBy(e.HashKey, "subject", tenant, p); err != nil || hash == e.SubjectHash {
			return p, err
		}
	}
	return "", nil
}

// Preview is what an erasure would erase, by place.
func (r *Runner) Preview(ctx context.Context, s owner.Scope) (map[string]int64, error) {
	rows, err := r.cfg.Owner.Count(ctx, s)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for table, n := range rows {
		out["table "+table] = n
	}
	if s.Subject != "" {
		return r.previewNames(ctx, s, out)
	}
	for _, kind := range []artifact.Kind{artifact.KindArtifacts, artifact.KindLogs, artifact.KindArchive} {
		m, err := r.cfg.Bucket.Measure(ctx, artifact.Scope{Kind: kind, TenantID: s.TenantID}, previewObjects)
		if err != nil {
			return nil, err
		}
		if m.Objects > 0 {
			out["bucket "+string(kind)] = m.Objects
			out["bucket bytes"] += m.Bytes
		}
	}
	n, err := r.cfg.Engine.CountTenant(ctx, s.TenantID)
	if n > 0 {
		out["engine executions"] = n
	}
	return out, err
}

// previewNames adds the rows in which an erasure would replace the person, by table.
func (r *Runner) previewNames(ctx context.Context, s owner.Scope, out map[string]int64) (map[string]int64, error) {
	found, err := r.cfg.Owner.FindNames(ctx, s)
	for table, n := range found {
		out["names "+table] = n
	}
	return out, err
}

// previewObjects bounds the objects of one kind that Preview counts.
const previewObjects = 100_000
