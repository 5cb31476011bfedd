package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// endpointDelay is the time after which a Service of Kubernetes follows a pod that is ready, or no longer is.
const endpointDelay = time.Second

// manifest is an object of the chart, as far as a rolling upgrade depends on it.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas int
		Strategy struct {
			RollingUpdate struct {
				MaxSurge       int `yaml:"maxSurge"`
				MaxUnavailable int `yaml:"maxUnavailable"`
			} `yaml:"rollingUpdate"`
		}
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Startup   *podProbe `yaml:"startupProbe"`
					Readiness *podProbe `yaml:"readinessProbe"`
					Liveness  *podProbe `yaml:"livenessProbe"`
					Lifecycle struct {
						PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
					}
				}
			}
		}
	}
}

// podProbe is a probe by HTTP. Zero fields have the defaults of Kubernetes.
type podProbe struct {
	HTTPGet  struct{ Path string } `yaml:"httpGet"`
	Period   int                   `yaml:"periodSeconds"`
	Timeout  int                   `yaml:"timeoutSeconds"`
	Failures int                   `yaml:"failureThreshold"`
}

// readManifests returns the objects of the chart by "Kind name". A test of the chart keeps the file as it renders them.
func readManifests(t *testing.T) map[string]manifest {
	t.Helper()
	file, err := os.Open("testdata/rollout.yaml")
	must(t, err)
	defer file.Close()
	out := map[string]manifest{}
	for documents := yaml.NewDecoder(file); ; {
		var m manifest
		err := documents.Decode(&m)
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		out[m.Kind+" "+m.Metadata.Name] = m
	}
}

// setting returns a setting of a ConfigMap of the chart.
func (m manifest) setting(t *testing.T, file, key string) string {
	t.Helper()
	var settings map[string]any
	must(t, yaml.Unmarshal([]byte(m.Data[file]), &settings))
	value, ok := settings[key].(string)
	if !ok {
		t.Fatalf("the chart gives no %s in %s", key, file)
	}
	return value
}

// pod is a process that a kubelet of the test starts, probes and ends.
type pod struct {
	*process
	name, api, metrics string

	// Guarded by the mu of its rollout.
	ready, ending bool
	askedToEnd    time.Time
	gone          time.Time // zero while it runs
}

// rollout is a Deployment with its pods, its controller and its kubelet. Times are those of the chart.
type rollout struct {
	t     *testing.T
	spec  manifest
	front *frontend // nil without a Service
	args  func(api, metrics string) []string
	env   []string

	mu       sync.Mutex
	pods     []*pod
	ended    []*pod
	started  int
	kubelets sync.WaitGroup
}

// newRollout returns a Deployment without pods. args gives the arguments of a pod that listens at api and metrics.
func newRollout(t *testing.T, spec manifest, front *frontend, env []string,
	args func(api, metrics string) []string) *rollout {
	t.Helper()
	if len(spec.Spec.Template.Spec.Containers) != 1 || spec.Spec.Replicas == 0 {
		t.Fatalf("the chart has no Deployment with replicas: %+v", spec)
	}
	r := &rollout{t: t, spec: spec, front: front, args: args, env: env}
	t.Cleanup(func() {
		r.mu.Lock()
		for _, p := range r.pods {
			p.ending = true
		}
		r.mu.Unlock()
		r.kubelets.Wait()
	})
	return r
}

// roll replaces every pod by one of another program, as the controller of a Deployment does, and returns when the new
// ones are ready. Old pods may still stop.
func (r *rollout) roll(binary string) {
	r.mu.Lock()
	old := slices.Clone(r.pods)
	r.mu.Unlock()
	want, strategy := r.spec.Spec.Replicas, r.spec.Spec.Strategy.RollingUpdate
	deadline := time.Now().Add(testtime.Of(3 * time.Minute))
	for fresh := 0; ; time.Sleep(100 * time.Millisecond) {
		if r.t.Context().Err() != nil || time.Now().After(deadline) {
			r.t.Errorf("the rollout of %s did not end: %s", r.spec.Metadata.Name, r)
			return
		}
		r.mu.Lock()
		all, available := len(r.pods), 0
		var next *pod
		for _, p := range r.pods {
			if p.ending {
				all--
				continue
			}
			if p.ready {
				available++
			}
			if next == nil && slices.Contains(old, p) {
				next = p
			}
		}
		r.mu.Unlock()
		switch {
		case next == nil && available >= want && fresh == want:
			return
		case next != nil && available > want-strategy.MaxUnavailable:
			r.end(next)
		case fresh < want && all < want+strategy.MaxSurge:
			fresh++
			r.start(binary)
		}
	}
}

// waitForEnds waits until no old pod is left.
func (r *rollout) waitForEnds() {
	waitUntil(r.t, "the old pods of "+r.spec.Metadata.Name+" have ended", 2*time.Minute, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.pods) == r.spec.Spec.Replicas
	})
}

// String returns the pods and their states.
func (r *rollout) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, p := range r.pods {
		fmt.Fprintf(&b, "%s ready=%t ending=%t; ", p.name, p.ready, p.ending)
	}
	return b.String()
}

func (r *rollout) start(binary string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started++
	p := &pod{name: fmt.Sprintf("%s-%d", r.spec.Metadata.Name, r.started), api: testserver.FreeAddress(r.t),
		metrics: testserver.FreeAddress(r.t)}
	p.process = spawnProgram(r.t, binary, p.name, r.env, r.args(p.api, p.metrics)...)
	r.pods = append(r.pods, p)
	r.kubelets.Go(func() { r.watch(p) })
}

// watch probes a pod until it ends.
func (r *rollout) watch(p *pod) {
	container := r.spec.Spec.Template.Spec.Containers[0]
	defer r.remove(p)
	// A busy machine starts processes later.
	slow := int(testtime.Of(time.Second) / time.Second)
	if probe := container.Startup; probe != nil && !r.probeUntil(p, *probe, true, max(1, probe.Failures)*slow) {
		r.fail(p, "has not started within the time of its startup probe")
		return
	}
	var probes sync.WaitGroup
	defer probes.Wait()
	if container.Readiness == nil {
		r.setReady(p, true)
	} else {
		probes.Go(func() {
			for ready := false; r.probeUntil(p, *container.Readiness, !ready, -1); {
				ready = !ready
				r.setReady(p, ready)
			}
		})
	}
	if container.Liveness != nil {
		probes.Go(func() {
			if r.probeUntil(p, *container.Liveness, false, -1) {
				r.fail(p, "does not answer its liveness probe")
			}
		})
	}
	<-p.exited
	r.fail(p, "ended although nothing had asked it to")
}

// probeUntil repeats a probe until it has the result want: once for a success, and failureThreshold times in a row for
// a failure. It returns false when the pod ends or is asked to end, and after most probes; most -1 is no bound.
func (r *rollout) probeUntil(p *pod, probe podProbe, want bool, most int) bool {
	get := &http.Client{Timeout: testtime.Of(time.Duration(max(1, probe.Timeout)) * time.Second),
		Transport: &http.Transport{DisableKeepAlives: true}}
	need := 1
	if !want {
		need = max(1, probe.Failures)
	}
	for n, row := 0, 0; n != most; n++ {
		select {
		case <-p.exited:
			return false
		case <-time.After(time.Duration(max(1, probe.Period)) * time.Second):
		}
		if r.isEnding(p) {
			return false
		}
		res, err := get.Get("http://" + p.metrics + probe.HTTPGet.Path)
		if err == nil {
			_ = res.Body.Close()
		}
		if (err == nil && res.StatusCode < http.StatusBadRequest) != want {
			row = 0
			continue
		}
		if row++; row == need {
			return true
		}
	}
	return false
}

func (r *rollout) isEnding(p *pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.ending
}

func (r *rollout) setReady(p *pod, ready bool) {
	r.mu.Lock()
	p.ready = ready && !p.ending
	ready = p.ready
	r.mu.Unlock()
	if r.front != nil {
		time.AfterFunc(endpointDelay, func() { r.front.set(p.api, ready && !r.isEnding(p)) })
	}
}

// end ends a pod like a kubelet: the Service follows with a delay, the hook sleeps, SIGTERM, and at the end of the
// grace SIGKILL, which the test reports.
func (r *rollout) end(p *pod) {
	r.mu.Lock()
	p.ending, p.ready, p.askedToEnd = true, false, time.Now()
	r.mu.Unlock()
	if r.front != nil {
		time.AfterFunc(endpointDelay, func() { r.front.set(p.api, false) })
	}
	spec := r.spec.Spec.Template.Spec
	grace := time.Duration(spec.Grace) * time.Second
	hook := time.Duration(spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
	r.kubelets.Go(func() {
		began := time.Now()
		time.Sleep(hook)
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			r.t.Errorf("%s: %v", p.name, err)
		}
		select {
		case <-p.exited:
			if !p.cmd.ProcessState.Success() {
				r.t.Errorf("%s ended with %s after SIGTERM", p.name, p.cmd.ProcessState)
			}
			r.t.Logf("%s ended %s after it was asked to", p.name, time.Since(began).Round(100*time.Millisecond))
		case <-time.After(testtime.Of(grace)):
			r.t.Errorf("%s still ran %s after it was asked to stop, and was killed", p.name, grace)
			p.kill()
		}
	})
}

// fail reports a pod that failed although nothing had asked it to end, except at the end of the test.
func (r *rollout) fail(p *pod, why string) {
	if !r.isEnding(p) && r.t.Context().Err() == nil {
		r.t.Errorf("%s %s", p.name, why)
	}
}

// remove removes a pod from the Deployment once its process has ended.
func (r *rollout) remove(p *pod) {
	select {
	case <-p.exited:
	case <-r.t.Context().Done():
	}
	if r.front != nil {
		r.front.set(p.api, false)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.gone = time.Now()
	r.ended = append(r.ended, p)
	r.pods = slices.DeleteFunc(r.pods, func(o *pod) bool { return o == p })
}

// endedBetween returns the number of pods that were on their way out at some moment of a time.
func (r *rollout) endedBetween(from, to time.Time) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range append(slices.Clone(r.ended), r.pods...) {
		if p.ending && p.askedToEnd.Before(to) && (p.gone.IsZero() || p.gone.After(from)) {
			n++
		}
	}
	return n
}

// frontend is a Service of Kubernetes: it forwards a connection to one of its endpoints in turn. Connections stay when
// their endpoint leaves.
type frontend struct {
	url string
	ln  net.Listener

	mu        sync.Mutex
	endpoints []string
	next      int
	refused   []string // connections that no endpoint took
	carrying  sync.WaitGroup
}

func newFrontend(t *testing.T) *frontend {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f := &frontend{url: "http://" + ln.Addr().String(), ln: ln}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	f.carrying.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			f.carrying.Go(func() { f.carry(ctx, c) })
		}
	})
	t.Cleanup(func() {
		stop()
		_ = ln.Close()
		f.carrying.Wait()
	})
	return f
}

// forget forgets the connections that no endpoint took so far.
func (f *frontend) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = nil
}

func (f *frontend) set(endpoint string, in bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endpoints = slices.DeleteFunc(f.endpoints, func(e string) bool { return e == endpoint })
	if in {
		f.endpoints = append(f.endpoints, endpoint)
	}
}

func (f *frontend) carry(ctx context.Context, from net.Conn) {
	defer from.Close()
	f.mu.Lock()
	to := ""
	if len(f.endpoints) > 0 {
		f.next++
		to = f.endpoints[f.next%len(f.endpoints)]
	}
	f.mu.Unlock()
	upstream, err := net.Dial("tcp", to)
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.refused = append(f.refused, fmt.Sprintf("%s %q: %v", time.Now().Format(time.StampMilli), to, err))
		return
	}
	defer upstream.Close()
	defer context.AfterFunc(ctx, func() { _ = from.Close(); _ = upstream.Close() })()
	var copies sync.WaitGroup
	for _, pair := range [][2]net.Conn{{from, upstream}, {upstream, from}} {
		copies.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	copies.Wait()
}
