package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

const (
	// siteEvery is the time between two looks at the role of the database.
	siteEvery = time.Second
	// siteLogEvery is the time between two lines about a promoted database that nobody put into service.
	siteLogEvery = time.Minute
)

// errSiteChanged ends the work of a process whose site became a primary or a standby. The process starts over.
var errSiteChanged = errors.New("the role of this site changed")

// site is the role of the site of this process. A standby writes nothing and starts no duty: by the setting standby, or
// because its database replicates a primary. It leaves that role when the database takes writes and has another number
// in its epoch, which `dvt dr promote` sets as its last step.
type site struct {
	setting  bool            // the setting standby
	standby  bool            // for the life of this value
	database *postgres.Store // nil on SQLite
	number   string          // of the epoch at the start
	state    atomic.Pointer[postgres.Site]
	log      *slog.Logger
}

// openSite reads the role of the store.
func openSite(ctx context.Context, s store.Store, setting bool, log *slog.Logger) (*site, error) {
	out := &site{setting: setting, standby: setting, log: log}
	if u, ok := s.(interface{ Unwrap() store.Store }); ok {
		s = u.Unwrap()
	}
	var ok bool
	if out.database, ok = s.(*postgres.Store); !ok {
		out.database = nil
		return out, nil
	}
	now, err := out.database.Site(ctx)
	if err != nil {
		return nil, err
	}
	out.state.Store(&now)
	out.number = epochNumber(now.Epoch)
	out.standby = setting || now.Standby
	return out, nil
}

// epochNumber returns the part of an epoch that a promotion by dvt changes.
func epochNumber(epoch string) string {
	number, _, _ := strings.Cut(epoch, ".")
	return number
}

// watch returns errSiteChanged once the role of the database differs from that at the start, and nil when ctx ends. A
// database that does not answer keeps its role.
func (s *site) watch(ctx context.Context) error {
	tick := time.NewTicker(siteEvery)
	defer tick.Stop()
	var logged time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if s.database == nil {
			continue
		}
		now, err := s.database.Site(ctx)
		if err != nil {
			continue
		}
		s.state.Store(&now)
		switch {
		case s.setting:
		case !s.standby && now.Standby, s.standby && !now.Standby && epochNumber(now.Epoch) != s.number:
			return errSiteChanged
		case s.standby && !now.Standby && time.Since(logged) > siteLogEvery:
			logged = time.Now()
			s.log.WarnContext(ctx, "the database of this standby was promoted, and the site is still a standby: run dvt dr "+
				"promote, which also names what was lost")
		}
	}
}

// message says in the health what the standby does.
func (s *site) message() string {
	now := s.state.Load()
	switch {
	case s.setting:
		return health.StandbyPrefix + "the setting standby is on, so this site answers reads and changes nothing."
	case now == nil:
		return health.StandbyPrefix + "this site answers reads and changes nothing."
	case !now.Standby:
		return health.StandbyPrefix + "the database was promoted. Run dvt dr promote to make this site the primary."
	case !now.Receiving:
		return fmt.Sprintf(health.StandbyPrefix+"the database replicates a primary that it does not reach; its newest "+
			"transaction is %s old.", plan.DurationWords(now.Age))
	}
	behind := now.Waiting
	if now.Behind != nil {
		behind = max(behind, *now.Behind)
	}
	return fmt.Sprintf(health.StandbyPrefix+"the database replicates a primary and is %d bytes and %s behind. This site "+
		"answers reads and changes nothing.", behind, plan.DurationWords(now.Age))
}

// healthMessage is message for a standby, and nil otherwise.
func (s *site) healthMessage() func() string {
	if !s.standby {
		return nil
	}
	return s.message
}

// lagBytes and lagSeconds are 0 on a primary.
func (s *site) lagBytes() float64 {
	now := s.state.Load()
	if now == nil || now.Behind == nil {
		return 0
	}
	return float64(max(now.Waiting, *now.Behind))
}

func (s *site) lagSeconds() float64 {
	if now := s.state.Load(); now != nil {
		return now.Age.Seconds()
	}
	return 0
}

func (s *site) isStandby() float64 {
	if s.standby {
		return 1
	}
	return 0
}

// role is the word for probes.
func (s *site) role() string {
	if s.standby {
		return "standby"
	}
	return "primary"
}

// acrossRoles runs work again whenever the role of the site changes.
func acrossRoles(ctx context.Context, log *slog.Logger, work func() error) error {
	for {
		err := work()
		if !errors.Is(err, errSiteChanged) || ctx.Err() != nil {
			return err
		}
		log.WarnContext(ctx, "the role of this site changed: the process starts over in its new role")
	}
}

// awaitPrimary waits while the server of a data worker is that of a standby, so that the worker takes no steps.
func awaitPrimary(ctx context.Context, j checker, log *slog.Logger) {
	told := false
	for errors.Is(j.Check(ctx), store.ErrReadOnly) {
		if !told {
			log.WarnContext(ctx, "the server is that of a standby site: this worker takes no steps until it is a primary")
			told = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(siteEvery):
		}
	}
}
