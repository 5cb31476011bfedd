package notifier

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/auditdoc"
)

// AuditReader is the part of a store that has the audit.
type AuditReader interface {
	AuditHeads(ctx context.Context, afterTenant string, limit int) ([]store.AuditHead, error)
	AuditEnds(ctx context.Context, tenantIDs []string) (map[string]int64, error)
	AuditLinks(ctx context.Context, f store.AuditFilter) ([]store.AuditLink, error)
	AuditCut(ctx context.Context, tenantID string) (store.AuditCutState, error)
}

// typeRecord is the type of messages with a record of the audit.
const typeRecord = "AuditRecord"

// auditLane and a tenant name a lane. One message of a lane is on its way, so records arrive in the order of the chain.
const auditLane = "audit/"

// auditReader is how far a session has read the audit of each tenant.
type auditReader struct {
	read   map[string]int64
	hashes map[string][32]byte // of the last record that was read; absent after a start
	buried bool                // the last outcome of records was a dead letter
	behind time.Time           // since then old records wait; zero when none does
	// rev is how far the session knows which chains grew, and grown are those that it has not read to their ends.
	rev   int64
	grown map[string]bool
}

func newAuditReader(read map[string]int64) auditReader {
	out := auditReader{read: maps.Clone(read), hashes: map[string][32]byte{}, grown: map[string]bool{}}
	if out.read == nil {
		out.read = map[string]int64{}
	}
	return out
}

// readAudit reads the next records of each tenant that the destination selects. Unlike events they begin with the first
// record of each chain, so that the receiver can verify the whole chain. more says that some are left.
func (s *session) readAudit(ctx context.Context) (more bool, err error) {
	if !s.dest.TakesAudit() {
		return false, nil
	}
	if s.dest.SelectsAudit("") { // no list of heads has the chain of the installation
		if more, err = s.readChain(ctx, ""); err != nil {
			return false, err
		}
	}
	grown, rev, err := s.heads.since(ctx, s.audit.rev)
	if err != nil {
		return false, err
	}
	for tenant, end := range grown {
		if end > s.audit.read[tenant] && s.dest.SelectsAudit(tenant) {
			s.audit.grown[tenant] = true
		}
	}
	s.audit.rev = rev
	for _, tenant := range slices.Sorted(maps.Keys(s.audit.grown)) {
		if !s.hasRoom() {
			return true, nil
		}
		left, err := s.readChain(ctx, tenant)
		if err != nil {
			return false, err
		}
		if !left {
			delete(s.audit.grown, tenant)
		}
		more = more || left
	}
	return more, nil
}

// readChain reads the next records of a tenant.
func (s *session) readChain(ctx context.Context, tenantID string) (more bool, err error) {
	after := s.audit.read[tenantID]
	previous, known := s.audit.hashes[tenantID]
	from := after
	if !known && after > 0 {
		from-- // the record before has the hash that the next one continues
	}
	part := s.openBatch()
	links, err := s.auditLinks(ctx, tenantID, from, feedPage)
	if err != nil {
		return false, err
	}
	for _, l := range links {
		if l.No <= after {
			previous = l.Hash
			continue
		}
		m, err := s.recordMessage(ctx, tenantID, l, previous)
		if err != nil {
			return false, err
		}
		s.add(part, auditLane+tenantID, m)
		previous = l.Hash
		s.audit.read[tenantID] = l.No
	}
	s.audit.hashes[tenantID] = previous
	return len(links) == feedPage, nil
}

// auditLinks reads links with opened names.
func (s *session) auditLinks(ctx context.Context, tenantID string, after int64, limit int) ([]store.AuditLink, error) {
	links, err := s.cfg.Store.AuditLinks(ctx, store.AuditFilter{TenantID: tenantID, After: after, Limit: limit,
		WithMissingRows: true})
	if err != nil {
		return nil, err
	}
	var rows []*store.AuditRow
	for _, l := range links {
		if l.Row != nil {
			rows = append(rows, l.Row)
		}
	}
	return links, s.cfg.OpenAudit(ctx, tenantID, rows)
}

// recordMessage returns the message with a record.
func (s *session) recordMessage(ctx context.Context, tenantID string, l store.AuditLink,
	previous [32]byte) (destination.Message, error) {
	var cut store.AuditCutState
	if l.Row == nil {
		var err error
		if cut, err = s.cfg.Store.AuditCut(ctx, tenantID); err != nil {
			return destination.Message{}, err
		}
	}
	doc, err := json.Marshal(auditdoc.Of(tenantID, l, previous, cut.No))
	m := destination.Message{ID: l.ID, Topic: destination.Audit, Type: typeRecord, TenantID: tenantID, Seq: uint64(l.No),
		Data: doc}
	if l.Row != nil {
		m.At, m.RunID = l.Row.At, l.Row.RunID
	}
	return m, err
}

// withoutRecord leaves the record out of a message that becomes a dead letter: its opened names would stay in the
// store after an erasure.
func withoutRecord(m destination.Message) destination.Message {
	if m.Topic == destination.Audit {
		m.Data = nil
	}
	return m
}

// reloadRecord reads the record of a dead letter again.
func (s *session) reloadRecord(ctx context.Context, m destination.Message) (destination.Message, error) {
	const two = 2 // the record and the one before
	no := int64(m.Seq)
	links, err := s.auditLinks(ctx, m.TenantID, max(0, no-two), two)
	if err != nil {
		return m, err
	}
	var previous [32]byte
	for _, l := range links {
		if l.No == no {
			return s.recordMessage(ctx, m.TenantID, l, previous)
		}
		previous = l.Hash
	}
	return m, fmt.Errorf("notifier: number %d of the audit is gone", no)
}

func isAudit(d *delivery) bool { return d.message.Topic == destination.Audit }

// mayBury reports whether a message that was refused for good becomes a dead letter. A record of the audit is tried as
// often as others that are not accepted; and after a dead letter the next one waits until something is accepted, so
// that a wrong key or address makes no dead letters of the whole audit.
func (s *session) mayBury(d *delivery) bool {
	return !isAudit(d) || d.part != nil || d.tries >= s.cfg.Timing.Tries && !s.audit.buried
}

// noteBehind remembers since when records of the audit wait that are older than FailingAfter.
func (s *session) noteBehind() {
	now := time.Now()
	for name, l := range s.lanes {
		if !strings.HasPrefix(name, auditLane) || l.queue[0].part != nil ||
			s.ageOf(l.queue[0].message.At) < s.cfg.Timing.FailingAfter {
			continue
		}
		if s.audit.behind.IsZero() {
			s.audit.behind = now
		}
		return
	}
	s.audit.behind = time.Time{}
}

// isBehind reports whether the destination has been behind with the audit for FailingAfter.
func (s *session) isBehind() bool {
	return !s.disabled && !s.audit.behind.IsZero() && time.Since(s.audit.behind) > s.cfg.Timing.FailingAfter
}
