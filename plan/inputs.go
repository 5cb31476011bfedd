package plan

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"unicode"
)

// CommandInputs are the inputs of a COMMAND step: a program and its arguments, without a shell.
type CommandInputs struct {
	Argv []string          `json:"argv"` // the program first, never empty
	Env  map[string]string `json:"env,omitempty"`
	Dir  string            `json:"dir,omitempty"` // empty: the run's own workspace
}

// HTTPInputs are the inputs of an HTTP_NOTIFY step.
type HTTPInputs struct {
	URL     string            `json:"url"`    // http or https
	Method  string            `json:"method"` // the default is POST
	Headers map[string]string `json:"headers,omitempty"`
	// Body is sent as its text if it is a JSON string, else as JSON.
	Body         json.RawMessage `json:"body,omitempty"`
	ExpectStatus []int           `json:"expectStatus,omitempty"` // empty: any 2xx
}

// DBTInputs are the inputs of a DBT_COMPILE, DBT_RUN or DBT_TEST step.
type DBTInputs struct {
	ProjectDir  string          `json:"projectDir"`
	ProfilesDir string          `json:"profilesDir,omitempty"`
	Select      string          `json:"select,omitempty"` // dbt's own selection syntax
	Exclude     string          `json:"exclude,omitempty"`
	Vars        json.RawMessage `json:"vars,omitempty"` // a JSON object
	Target      string          `json:"target,omitempty"`
	Threads     int             `json:"threads,omitempty"` // 0: the profile's
	FullRefresh bool            `json:"fullRefresh,omitempty"`
	State       *DBTState       `json:"state,omitempty"` // nil: no comparison
}

// DBTState makes a dbt step a slim one: dbt compares the project with an earlier manifest, which dvt chooses. Without a
// select, the step runs what was modified and what reads it. Other nodes are deferred to that manifest.
type DBTState struct {
	Against   StateBase      `json:"against"`
	Otherwise StateOtherwise `json:"otherwise,omitempty"` // "" is RefuseWithoutState
}

// StateBase says with which manifest a dbt step compares.
type StateBase string

// LastGreen is the newest completed run of the same plan and environment whose step stored a manifest.
const LastGreen StateBase = "LAST_GREEN"

// StateOtherwise says what a dbt step does when there is no manifest to compare with.
type StateOtherwise string

// What a dbt step does without a manifest.
const (
	RefuseWithoutState StateOtherwise = "REFUSE"
	FullWithoutState   StateOtherwise = "FULL" // it runs its own selection, or all nodes
)

// SleepInputs are the inputs of a SLEEP step.
type SleepInputs struct {
	MS int `json:"ms"` // milliseconds
}

// ManualInputs are the inputs of a MANUAL step.
type ManualInputs struct {
	Instructions string   `json:"instructions,omitempty"`
	Evidence     []string `json:"evidence,omitempty"` // the evidence that the person must provide
}

// DecodeCommand decodes the inputs of a COMMAND step. It applies the rules of Parse, because the overlays of a run may
// have changed the inputs after Parse. It returns *InvalidError with all violations; their paths begin with "inputs".
func DecodeCommand(inputs json.RawMessage) (CommandInputs, error) {
	return decode(inputs, (*object).command)
}

// DecodeHTTP decodes the inputs of an HTTP_NOTIFY step; see DecodeCommand.
func DecodeHTTP(inputs json.RawMessage) (HTTPInputs, error) { return decode(inputs, (*object).http) }

// DecodeDBT decodes the inputs of a DBT_COMPILE, DBT_RUN or DBT_TEST step; see DecodeCommand.
func DecodeDBT(inputs json.RawMessage) (DBTInputs, error) { return decode(inputs, (*object).dbt) }

// DecodeSleep decodes the inputs of a SLEEP step; see DecodeCommand.
func DecodeSleep(inputs json.RawMessage) (SleepInputs, error) {
	return decode(inputs, (*object).sleep)
}

// DecodeManual decodes the inputs of a MANUAL step; see DecodeCommand.
func DecodeManual(inputs json.RawMessage) (ManualInputs, error) {
	return decode(inputs, (*object).manual)
}

func decode[T any](inputs json.RawMessage, read func(*object) T) (T, error) {
	var t T
	r, p := &reader{}, (*at)(nil).field("inputs")
	if err := wellFormed(inputs); err != nil {
		r.report(p, CodeInvalid, "%s", err)
		return t, r.err()
	}
	if o, ok := r.object(trim(inputs), p); ok {
		t = read(o)
		o.end()
	}
	return t, r.err()
}

// inputs checks the inputs of a step and returns them as compact JSON; nil for an unknown type.
func (r *reader) inputs(v value, p *at, t StepType) json.RawMessage {
	o, ok := r.object(v, p)
	if !ok {
		return nil
	}
	switch t {
	case Command:
		o.command()
	case HTTPNotify:
		o.http()
	case DBTCompile, DBTRun, DBTTest:
		o.dbt()
	case Sleep:
		o.sleep()
	case Manual:
		o.manual()
	case Noop:
	default:
		return nil // the unknown type was reported already
	}
	o.end()
	return v.compact()
}

var (
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

func (o *object) command() CommandInputs {
	var in CommandInputs
	r := o.r
	if v, vp, ok := o.need("argv", `the program and its arguments, such as ["make", "check"]`); ok {
		in.Argv = r.arguments(v, vp)
		if v.isArray() && (len(in.Argv) == 0 || in.Argv[0] == "") {
			r.report(vp, CodeInvalid, "name the program as the first element")
		}
	}
	if v, vp, ok := o.take("env"); ok {
		in.Env = r.strings(v, vp, func(key, _ string, p *at) {
			if !envName.MatchString(key) {
				r.report(p, CodeInvalid, "name a variable with letters, digits and _ only")
			}
		})
	}
	if v, vp, ok := o.take("dir"); ok {
		in.Dir = r.argument(v, vp)
	}
	return in
}

func (o *object) http() HTTPInputs {
	in := HTTPInputs{Method: http.MethodPost}
	r := o.r
	if v, vp, ok := o.need("url", "the address to call"); ok {
		in.URL = r.webURL(v, vp)
	}
	if v, vp, ok := o.take("method"); ok {
		in.Method, _ = r.oneOf(v, vp, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet,
			http.MethodHead)
	}
	if v, vp, ok := o.take("headers"); ok {
		in.Headers = r.strings(v, vp, func(key, val string, p *at) {
			if !headerName.MatchString(key) {
				r.report(p, CodeInvalid, "this cannot be the name of a header")
			}
			if strings.ContainsFunc(val, func(c rune) bool { return c != '\t' && unicode.IsControl(c) }) {
				r.report(p, CodeInvalid, "remove the control characters and line breaks")
			}
		})
	}
	if v, vp, ok := o.take("body"); ok {
		if v.isObject() || v.isArray() {
			r.uniqueKeys(v, vp)
		}
		in.Body = v.compact()
	}
	if v, vp, ok := o.take("expectStatus"); ok {
		status := func(v value, p *at) {
			n, _ := r.integer(v, p, 100, 599)
			in.ExpectStatus = append(in.ExpectStatus, n)
		}
		if v.isNumber() {
			status(v, vp)
		} else {
			r.array(v, vp, status)
		}
	}
	return in
}

func (o *object) dbt() DBTInputs {
	var in DBTInputs
	r := o.r
	if v, vp, ok := o.need("projectDir", "the directory of dbt_project.yml"); ok {
		if in.ProjectDir = r.argument(v, vp); v.isString() && in.ProjectDir == "" {
			r.report(vp, CodeInvalid, "name the directory of dbt_project.yml")
		}
	}
	for _, f := range []struct {
		key string
		to  *string
	}{{"profilesDir", &in.ProfilesDir}, {"select", &in.Select}, {"exclude", &in.Exclude}, {"target", &in.Target}} {
		if v, vp, ok := o.take(f.key); ok {
			*f.to = r.argument(v, vp)
		}
	}
	if v, vp, ok := o.take("vars"); ok {
		in.Vars = r.anyObject(v, vp)
	}
	if v, vp, ok := o.take("threads"); ok {
		in.Threads, _ = r.integer(v, vp, 1, 256)
	}
	if v, vp, ok := o.take("fullRefresh"); ok {
		in.FullRefresh = r.boolean(v, vp)
	}
	if v, vp, ok := o.take("state"); ok {
		if state, isObject := r.object(v, vp); isObject {
			in.State = state.dbtState()
		}
	}
	return in
}

func (o *object) dbtState() *DBTState {
	var out DBTState
	if v, vp, ok := o.need("against", "LAST_GREEN"); ok {
		word, _ := o.r.oneOf(v, vp, string(LastGreen))
		out.Against = StateBase(word)
	}
	if v, vp, ok := o.take("otherwise"); ok {
		word, _ := o.r.oneOf(v, vp, string(RefuseWithoutState), string(FullWithoutState))
		out.Otherwise = StateOtherwise(word)
	}
	o.end()
	return &out
}

func (o *object) sleep() SleepInputs {
	var in SleepInputs
	if v, vp, ok := o.need("ms", "the time to sleep, in milliseconds"); ok {
		in.MS, _ = o.r.integer(v, vp, 0, int(MaxTimeout.Milliseconds()))
	}
	return in
}

func (o *object) manual() ManualInputs {
	var in ManualInputs
	if v, vp, ok := o.take("instructions"); ok {
		in.Instructions, _ = o.r.text(v, vp)
	}
	if v, vp, ok := o.take("evidence"); ok {
		in.Evidence = o.r.arguments(v, vp)
	}
	return in
}

// arguments reads a list of strings.
func (r *reader) arguments(v value, p *at) []string {
	list := []string{}
	r.array(v, p, func(v value, p *at) { list = append(list, r.argument(v, p)) })
	return list
}
