package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"golang.org/x/sync/errgroup"
)

// apiClient sends requests to the API over HTTP with one token. It keeps its connections open.
type apiClient struct {
	client *http.Client
	token  string
}

func newAPIClient(token string, atOnce int) apiClient {
	return apiClient{token: token, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce,
		DisableCompression: true}}}
}

// post sends a GraphQL document and returns the response. Errors in the response are errors.
func (a apiClient) post(ctx context.Context, addr, query string, variables any) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/graphql",
		strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+a.token)
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || strings.HasPrefix(string(answer), `{"errors"`)) {
		err = fmt.Errorf("the API returned %s: %.500s", resp.Status, answer)
	}
	return answer, err
}

// listJSON measures the processor time of one list of runs that four clients request, against that of net/http and
// encoding/json writing the same bytes.
func listJSON(ctx context.Context, r *rig.Rig) (t *rig.Trial, err error) {
	const turns, clients, forTime = 5, 4, time.Second
	a := newAPIClient(viewerToken, clients)
	var all []*rig.Service
	done := func() error {
		var errs []error
		for _, s := range all {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}
	start := func(kind string, o rig.Options) (*rig.Service, error) {
		s, err := rig.StartOwn(ctx, rig.ServerCore, kind, o)
		if err == nil {
			all = append(all, s)
		}
		return s, err
	}
	cpuPerRequest := func(s *rig.Service) rig.Measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			before, err := s.CPU()
			if err != nil {
				return 0, err
			}
			var n atomic.Int64
			g, requesting := errgroup.WithContext(ctx)
			began := time.Now()
			for range clients {
				g.Go(func() error {
					for time.Since(began) < forTime {
						if _, err := a.post(requesting, s.Addr, listQuery, nil); err != nil {
							return err
						}
						n.Add(1)
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				return 0, err
			}
			after, err := s.CPU()
			return (after - before) / time.Duration(n.Load()), err
		}
	}
	ours, err := start("list", rig.Options{})
	if err != nil {
		return nil, err
	}
	answer, err := a.post(ctx, ours.Addr, listQuery, nil)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	floor, err := start("encoding", rig.Options{Payload: string(answer)})
	if err != nil {
		return nil, errors.Join(err, done())
	}
	return &rig.Trial{Repeat: rig.Alternate(turns, cpuPerRequest(ours), cpuPerRequest(floor)), Done: done}, nil
}
