package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run/trace"
)

// The environment has secrets, and callers and authors of plans choose names that a terminal or a collector of logs
// would interpret. Each line of the log at its most talkative level stays one line of printable JSON without a secret,
// and each line about a run names its trace.
func TestLog_HostileEnvironmentAndNames(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-is-a-secret"
	data, address := dataDir(t), testserver.FreeAddress(t)
	p := spawn(t, "dvt dev", []string{"DVT_LOG_LEVEL=debug", "DVT_LOG_FORMAT=json",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://user:" + secret + "@127.0.0.1:1",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization " + secret, "OTEL_EXPORTER_OTLP_TIMEOUT=" + secret,
		"PGPASSWORD=" + secret, "AWS_SECRET_ACCESS_KEY=" + secret}, "dev", "--listen", address, "--data", data, "--no-sample",
		"--heartbeat", "2s")
	token := devToken(t, data, "dev-engineer")
	hostile := "\x1b]0;x\x07\n{\"level\":\"ERROR\"}\u009b2J\u202e"
	for _, path := range []string{"/graphql", "/engine/runs/%1b%5b2J%0aforged/debug", "/share/" + secret,
		"/journal/v1/" + secret} {
		body, _ := json.Marshal(map[string]string{"operationName": hostile, "query": "query { " + secret + " }"})
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path,
			strings.NewReader(string(body)))
		must(t, err)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Authorization", "Bearer "+secret)
		q.Header.Set("User-Agent", "\u009b31m "+secret)
		q.Header.Set("Traceparent", "00-"+secret)
		res, err := http.DefaultClient.Do(q)
		must(t, err)
		_ = res.Body.Close()
	}
	c := client.New("http://"+address, token)
	id := start(t, c, "hostile", stepsPlan("hostile",
		`{"stepId":"print","type":"COMMAND","inputs":{"argv":["sh","-c","printf '\\033[2J%s\\n' `+secret+
			`; exit 3"]},"dependsOn":[],"timeout":"1m"}`,
		`{"stepId":"call","type":"HTTP_NOTIFY","inputs":{"url":"http://user:`+secret+
			`@127.0.0.1:1/"},"timeout":"10s","dependsOn":[]}`))
	waitForEnd(t, c, id, time.Minute)
	p.terminate()
	log := p.output()
	if strings.Contains(log, secret) || strings.Contains(log, token) {
		t.Errorf("the log has a secret:\n%s", linesWith(log, secret, token))
	}
	lines := 0
	for line := range strings.Lines(log) {
		lines++
		line = strings.TrimSuffix(line, "\n")
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("the line %q is no JSON: %v", line, err)
			continue
		}
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("the line %q has a rune that is not printable", line)
		}
		if of, ok := l["runId"].(string); ok && l["traceId"] != trace.IDOf(of).String() {
			t.Errorf("the line %s is about a run and has not its trace", line)
		}
	}
	if lines < 10 || !strings.Contains(log, "check the OTEL_") {
		t.Errorf("the log has %d lines, want those of the requests and of the wrong settings:\n%s", lines, log)
	}
}

// linesWith returns the lines that contain one of the texts.
func linesWith(log string, texts ...string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		for _, text := range texts {
			if strings.Contains(line, text) {
				b.WriteString(line)
				break
			}
		}
	}
	return b.String()
}
