package ticket_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine/ticket"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// secretOf returns a secret that is derived from a letter.
func secretOf(letter string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

func keys(t *testing.T, list ...string) ticket.Keys {
	t.Helper()
	k, err := ticket.ParseKeys(list)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func dispatch() ticket.Dispatch {
	return ticket.Dispatch{
		RunID: "r1", StepID: "load", LogicalAttempt: 2, N: 3, Queue: "tq-data-dev", Hook: true, PassFailing: true,
		SignalID: "retry-1",
		Expires:  noon.Add(ticket.Life),
	}
}

func TestCheck_ReadsWhatTicketWrote(t *testing.T) {
	t.Parallel()
	k := keys(t, "k1:"+secretOf("a"))
	text := k.Ticket(dispatch())
	got, err := k.Check(text, noon)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dispatch(), got); diff != "" {
		t.Errorf("dispatch (-want +got):\n%s", diff)
	}
	if again := k.Ticket(dispatch()); again != text {
		t.Errorf("the same dispatch gives another ticket: %s, then %s", text, again)
	}
}

// A ticket with a changed field, or made without the secret, is forged.
func TestCheck_EveryFieldIsBound(t *testing.T) {
	t.Parallel()
	k := keys(t, "k1:"+secretOf("a"))
	id, rest, _ := strings.Cut(k.Ticket(dispatch()), ".")
	body, mac, _ := strings.Cut(rest, ".")
	for name, change := range map[string]func(*ticket.Dispatch){
		"run":         func(d *ticket.Dispatch) { d.RunID = "r2" },
		"step":        func(d *ticket.Dispatch) { d.StepID = "loaf" },
		"attempt":     func(d *ticket.Dispatch) { d.LogicalAttempt++ },
		"dispatch":    func(d *ticket.Dispatch) { d.N++ },
		"queue":       func(d *ticket.Dispatch) { d.Queue = "tq-control-dev" },
		"hook":        func(d *ticket.Dispatch) { d.Hook = false },
		"passFailing": func(d *ticket.Dispatch) { d.PassFailing = false },
		"signal":      func(d *ticket.Dispatch) { d.SignalID = "" },
		"expires":     func(d *ticket.Dispatch) { d.Expires = d.Expires.Add(time.Second) },
	} {
		d := dispatch()
		change(&d)
		doc, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		forged := id + "." + base64.RawURLEncoding.EncodeToString(doc) + "." + mac
		if _, err := k.Check(forged, noon); !errors.Is(err, ticket.ErrForged) {
			t.Errorf("%s changed: %v, want ErrForged", name, err)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "dots": "..", "no mac": id + "." + body, "an empty mac": id + "." + body + ".", "more": id + "." +
			body + "." + mac + ".x",
		"another id": "k2." + body + "." + mac, "no id": "." + body + "." + mac, "cut": (id + "." + body + "." + mac)[:40],
		"a seal":      id + "." + body + "." + strings.TrimPrefix(k.Seal("ticket", body), id+"."),
		"a key's mac": id + "." + body + "." + strings.TrimPrefix(k.Key(ticket.Execution{RunID: body}), id+"."),
	} {
		if _, err := k.Check(text, noon); !errors.Is(err, ticket.ErrForged) {
			t.Errorf("%s: %v, want ErrForged", name, err)
		}
	}
}

// A signature counts only under a key of the list. Another secret under the same id does not count.
func TestCheck_ForeignAndRotatedKeys(t *testing.T) {
	t.Parallel()
	before, changing, after := keys(t, "old:"+secretOf("a")), keys(t, "new:"+secretOf("b"), "old:"+secretOf("a")),
		keys(t, "new:"+secretOf("b"))
	x := ticket.Execution{RunID: "r1", StepID: "load", LogicalAttempt: 1, N: 1, EngineAttempt: 1}
	for _, c := range []struct {
		name   string
		from   ticket.Keys
		to     ticket.Keys
		passes bool
	}{
		{"before the change", before, before, true},
		{"made before, checked in it", before, changing, true},
		{"made in it, checked after", changing, after, true},
		{"made before, checked after", before, after, false},
		{"made in it by the new key, checked with the old one alone", changing, before, false},
		{"another secret under the same id", keys(t, "old:"+secretOf("x")), before, false},
		{"the same secret under another id", keys(t, "other:"+secretOf("a")), before, false},
		{"no keys at all", ticket.Keys{}, before, false},
		{"checked without keys", before, ticket.Keys{}, false},
		{"neither has keys", ticket.Keys{}, ticket.Keys{}, false},
	} {
		if _, err := c.to.Check(c.from.Ticket(dispatch()), noon); (err == nil) != c.passes {
			t.Errorf("%s: the ticket gives %v, want passing %t", c.name, err, c.passes)
		}
		if fits := c.to.Fits(c.from.Key(x), x); fits != c.passes {
			t.Errorf("%s: the key fits %t, want %t", c.name, fits, c.passes)
		}
		if sealed := c.to.VerifySeal(c.from.Seal("start", "text"), "start", "text"); sealed != c.passes {
			t.Errorf("%s: the seal holds %t, want %t", c.name, sealed, c.passes)
		}
	}
}

func TestCheck_ExpiredStillSaysWhatItWasFor(t *testing.T) {
	t.Parallel()
	k := keys(t, "k1:"+secretOf("a"))
	text := k.Ticket(dispatch())
	if _, err := k.Check(text, noon.Add(ticket.Life)); err != nil {
		t.Errorf("in its last second: %v", err)
	}
	d, err := k.Check(text, noon.Add(ticket.Life+time.Second))
	if !errors.Is(err, ticket.ErrExpired) || d.RunID != "r1" || d.StepID != "load" {
		t.Errorf("a second later: %v of %s %s, want ErrExpired of r1 load", err, d.RunID, d.StepID)
	}
}

// The key of one execution fits no other execution.
func TestFits_EveryFieldIsBound(t *testing.T) {
	t.Parallel()
	k := keys(t, "k1:"+secretOf("a"))
	own := ticket.Execution{RunID: "r1", StepID: "load", LogicalAttempt: 1, N: 1, EngineAttempt: 1}
	key := k.Key(own)
	if !k.Fits(key, own) {
		t.Fatal("a key does not fit its own execution")
	}
	for name, other := range map[string]ticket.Execution{
		"run":            {RunID: "r2", StepID: "load", LogicalAttempt: 1, N: 1, EngineAttempt: 1},
		"step":           {RunID: "r1", StepID: "loaf", LogicalAttempt: 1, N: 1, EngineAttempt: 1},
		"attempt":        {RunID: "r1", StepID: "load", LogicalAttempt: 2, N: 1, EngineAttempt: 1},
		"dispatch":       {RunID: "r1", StepID: "load", LogicalAttempt: 1, N: 2, EngineAttempt: 1},
		"engine attempt": {RunID: "r1", StepID: "load", LogicalAttempt: 1, N: 1, EngineAttempt: 2},
		"hook":           {RunID: "r1", StepID: "load", LogicalAttempt: 1, N: 1, EngineAttempt: 1, Hook: true},
		// The caller chooses these ids, so a separator in one must not shift the border between them.
		"ids that are another split of the same text": {RunID: "r1|load", StepID: "", LogicalAttempt: 1, N: 1,
			EngineAttempt: 1},
	} {
		if k.Fits(key, other) {
			t.Errorf("the key fits another %s", name)
		}
	}
	a, b := ticket.Execution{RunID: "r1", StepID: "a|b"}, ticket.Execution{RunID: "r1|a", StepID: "b"}
	if k.Fits(k.Key(a), b) {
		t.Error("a separator in an id makes two executions one")
	}
	if sealed := k.Seal("execution", "x"); k.VerifySeal(sealed, "other", "x") || k.VerifySeal(sealed, "execution", "y") {
		t.Error("a seal holds for another purpose or text")
	}
}

func TestParseKeys_SaysWhatIsWrongAndNeverTheSecret(t *testing.T) {
	t.Parallel()
	long := secretOf("a")
	short := base64.StdEncoding.EncodeToString([]byte("too short to be a key"))
	for name, list := range map[string][]string{
		"no id": {long}, "an empty id": {":" + long}, "an id with a dot": {"a.b:" + long}, "a short secret": {"k:" + short},
		"not base64": {"k:" + strings.Repeat("!", 44)}, "no secret": {"k:"}, "twice": {"k:" + long, "k:" + secretOf("b")},
	} {
		_, err := ticket.ParseKeys(list)
		if err == nil {
			t.Errorf("%s is accepted, want an error", name)
			continue
		}
		for _, secret := range []string{long, short, secretOf("b"), strings.Repeat("!", 44)} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error shows the secret: %v", name, err)
			}
		}
	}
}

func TestKeys_NeverPrintTheirSecrets(t *testing.T) {
	t.Parallel()
	k := keys(t, "k1:"+secretOf("a"), "k2:"+secretOf("b"))
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("keys", slog.Any("keys", k), slog.Any("in",
		struct{ Keys ticket.Keys }{k}))
	doc, err := json.Marshal(struct{ Keys ticket.Keys }{k})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{log.String(), string(doc), fmt.Sprint(k), fmt.Sprint(&k)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b"} {
		texts = append(texts, fmt.Sprintf(verb, k), fmt.Sprintf(verb, struct{ Keys ticket.Keys }{k}),
			fmt.Sprintf(verb, struct{ keys ticket.Keys }{k}))
	}
	for _, text := range texts {
		for _, secret := range []string{secretOf("a"), "aaaa", "61616161", "97 97", "0x61", "1100001 1100001"} {
			if strings.Contains(text, secret) {
				t.Errorf("a secret is shown: %s", text)
			}
		}
	}
	if got := k.String(); got != "k1:*** k2:***" {
		t.Errorf("the keys print as %q, want their ids", got)
	}
}
