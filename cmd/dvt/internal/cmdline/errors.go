// Package cmdline turns wrong command lines and failed calls into messages with an exit status, and parses values of
// enums.
package cmdline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/Khan/genqlient/graphql"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/run"
)

// Error is an error with an exit status: 1 failed, 2 usage, 3 refused, 4 not found.
type Error struct {
	Status int
	Code   string // a code of the API's table, when one applies; the message begins with it
	Err    error
	Said   bool // the output shows it already, so it is not printed again
}

func (e *Error) Error() string {
	if e.Code != "" {
		return e.Code + ": " + e.Err.Error()
	}
	return e.Err.Error()
}
func (e *Error) Unwrap() error { return e.Err }

// Usage returns err with the exit status of a wrong command line.
func Usage(err error) error { return &Error{Status: 2, Err: err} }

// Interrupted is the exit status of a command that Ctrl-C or SIGTERM ended early.
const Interrupted = 130

// ExitStatus returns the exit status of a command that ended with err.
func ExitStatus(err error) int {
	var e *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Status
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return 1
}

// Failure returns an error of an API call with its exit status and a hint on what to do next. It returns nil, an *Error
// and context.Canceled unchanged.
func Failure(err error) error {
	var own *Error
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, &own) {
		return err
	}
	err = client.AsAPIError(err)
	var e *client.Error
	if !errors.As(err, &e) {
		return &Error{Status: 1, Err: connectionError(err)}
	}
	status := 1
	if c, known := run.Code(e.Code).Info(); known {
		status = statusOfCode(c)
		waits := e.RetryAfter > 0 && strings.Contains(c.WhatToDo, "`retryAfterMs`") // the error tells how long to wait
		if hint := cmp.Or(hints[c.Code], c.WhatToDo); !waits && !strings.Contains(e.Message, hint) {
			e.More = append([]string{hint}, e.More...)
		}
	}
	return &Error{Status: status, Err: e}
}

// hints replace the advice of the table of codes where that speaks of the API instead of the command line.
var hints = map[run.Code]string{
	run.CodeBadInput: "Nothing was done. Correct the named values; see --help.",
	run.CodeUnauthenticated: "Give a token: --token, DVT_TOKEN, or a context (see dvt context). For a dvt dev: run the " +
		"command beside its data directory, or set DVT_DATA.",
	run.CodeTokenExpired:   "Create a new token with dvt token create, and put it where your context looks for it.",
	run.CodeForbidden:      "Ask someone who can do this; dvt whoami shows your roles.",
	run.CodeEngineReadOnly: "dvt service status says since when, and whether it still is.",
	run.CodeEngineDraining: "dvt service status says since when, and whether it still is.",
	run.CodeTenantFrozen:   "Ask its administrators; dvt service status says since when.",
	run.CodePlanInvalid:    "Correct the plan; dvt plan validate FILE checks it without a server.",
	run.CodeRunMoved:       "Look at what changed (dvt run show) and decide again.",
}

// statusOfCode returns the exit status for a code of the API. It follows from the HTTP status, but refusals because of
// the state of the service are 3 too.
func statusOfCode(c run.CodeInfo) int {
	switch {
	case c.HTTPStatus == http.StatusNotFound:
		return 4
	case slices.Contains(refusals, c.Code), slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden,
		http.StatusConflict, http.StatusTooManyRequests, http.StatusNotImplemented}, c.HTTPStatus):
		return 3
	case c.HTTPStatus >= 400 && c.HTTPStatus < 500:
		return 2
	}
	return 1
}

var refusals = []run.Code{run.CodeEngineReadOnly, run.CodeEngineDraining, run.CodeEngineDegraded, run.CodeTenantFrozen}

// connectionError turns an error of the connection into a message that tells what to do.
func connectionError(err error) error {
	var at *url.Error
	var op *net.OpError
	var dns *net.DNSError
	var answer *graphql.HTTPError
	switch {
	case errors.As(err, &answer):
		return fmt.Errorf(
			"the server answered %d %s, which is not an answer of dvt: check the address (--server, dvt context)",
			answer.StatusCode, http.StatusText(answer.StatusCode))
	case !errors.As(err, &at):
		return err
	}
	server := at.URL
	if u, perr := url.Parse(at.URL); perr == nil {
		server = u.Scheme + "://" + u.Host
	}
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("there is no host %s: correct --server, DVT_SERVER or the context (see dvt context)", dns.Name)
	case at.Timeout():
		return fmt.Errorf("%s did not answer in time: try again, or check it with `dvt health`", server)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf(
			"no dvt answers at %s: %w\n  start one with `dvt dev`, or name yours with --server, DVT_SERVER or `dvt "+
				"context set`", server, op.Err)
	}
	return fmt.Errorf("the connection to %s failed: %w", server, at.Err)
}

// NotFound returns an error with the exit status 4 for an object that does not exist, or that belongs to somebody else.
// Its sentence is that of the server, so that one refusal has one spelling.
func NotFound(what string) error {
	sentence := "There is no such " + what + ", or it is not yours."
	return &Error{Status: 4, Code: string(run.CodeNotFound), Err: errors.New(sentence)}
}

// ExactArgs is cobra.ExactArgs with the exit status of a usage error.
func ExactArgs(n int) cobra.PositionalArgs { return RangeArgs(n, n) }

// RangeArgs is cobra.RangeArgs with a usage error that names the missing arguments, as the usage line calls them, or
// the first argument too many.
func RangeArgs(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch names := strings.Fields(c.Use)[1:]; {
		case len(args) < least:
			return missingArgsError(names[len(args):least])
		case len(args) > most:
			return fmt.Errorf("unexpected argument %q%s", args[most], suggestion(c, args[most], ""))
		}
		return nil
	}
}

// missingArgsError names the arguments that a command line lacks.
type missingArgsError []string

func (m missingArgsError) Error() string { return "give " + listed(m) }

// listed joins names as a sentence does: "a, b and c".
func listed(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Guide gives root and the commands below it usage errors with exit status 2 that explain what is wrong and suggest
// similar names.
func Guide(root *cobra.Command) {
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
			if wrong := c.Args(c, args); wrong != nil { // the command is wrong, therefore its flags are unknown
				return wrong
			}
		}
		text := err.Error()
		var unknown *pflag.NotExistError
		var wrong *pflag.InvalidValueError
		switch {
		case errors.As(err, &unknown):
			text += suggestion(flagNames(c), unknown.GetSpecifiedName(), "--")
		case errors.As(err, &wrong) && kinds[wrong.GetFlag().Value.Type()] != "":
			text = fmt.Sprintf("--%s must be %s, not %q", wrong.GetFlag().Name, kinds[wrong.GetFlag().Value.Type()],
				wrong.GetValue())
		}
		return Usage(fmt.Errorf("%s\n  see %s --help", text, c.CommandPath()))
	})
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}",
		"{{if and .Runnable (or (not .HasAvailableSubCommands) .HasExample)}}", 1))
	guideGroup(root)
	root.SetHelpCommand(helpCommand())
	foldHelp(root)
}

// helpCommand returns the command help. It refuses a command that does not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND…]", Short: "Show the help of a command",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return Usage(fmt.Errorf("there is no command %q%s\n  see %s --help", strings.Join(args, " "),
					suggestion(about, args[len(args)-1], ""), c.Root().CommandPath()))
			}
			return about.Help()
		},
	}
}

// kinds describe the types of flags.
var kinds = map[string]string{"int": "a whole number", "int64": "a whole number",
	"duration": `a duration such as "30s" or "10m"`, "bool": "true or false"}

// requiredUnlessPreview marks a flag that a command needs unless it only previews.
const requiredUnlessPreview = "dvt_required_unless_preview"

// RequireReason makes --reason required, except with --preview, because a preview is not audited.
func RequireReason(c *cobra.Command) {
	_ = c.Flags().SetAnnotation("reason", requiredUnlessPreview, []string{"true"}) // cannot fail: the flag exists
}

// missingFlags returns the required flags that are not given. A blank reason counts as none.
func missingFlags(c *cobra.Command) (out []*pflag.Flag) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		is := func(mark string) bool { return slices.Equal(f.Annotations[mark], []string{"true"}) }
		needed := is(cobra.BashCompOneRequiredFlag) || is(requiredUnlessPreview) && !IsPreview(c)
		if needed && (!f.Changed || f.Name == "reason" && strings.TrimSpace(f.Value.String()) == "") {
			out = append(out, f)
		}
	})
	return out
}

// checkFlagGroups returns an error for a group of flags that needs one of its flags, or allows at most one.
func checkFlagGroups(c *cobra.Command) error {
	err := c.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	text := err.Error()
	if first, last := strings.Index(text, "["), strings.Index(text, "]"); 0 <= first && first < last {
		group := "--" + strings.Join(strings.Fields(text[first+1:last]), ", --")
		if strings.HasPrefix(text, "at least one") {
			return fmt.Errorf("give one of %s", group)
		}
		return fmt.Errorf("give at most one of %s", group)
	}
	return err
}

// checkLine returns one usage error for everything that is wrong with the arguments and the flags of a command line, so
// that a person corrects it once. args is the check of the arguments, or nil.
func checkLine(c *cobra.Command, args cobra.PositionalArgs, given []string) error {
	var problems, missing, about []string
	if args != nil {
		err := args(c, given)
		var lacks missingArgsError
		switch {
		case errors.As(err, &lacks):
			missing = lacks
		case err != nil:
			problems = append(problems, err.Error())
		}
	}
	flags := missingFlags(c)
	if len(flags) == 1 && len(missing) == 0 && flags[0].Name == "reason" {
		problems = append(problems, needReason)
	} else {
		for _, f := range flags {
			missing = append(missing, "--"+f.Name)
			about = append(about, fmt.Sprintf("\n  --%s: %s", f.Name, f.Usage))
		}
	}
	if len(missing) > 0 {
		problems = append([]string{missingArgsError(missing).Error()}, problems...)
	}
	if err := checkFlagGroups(c); err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) == 0 {
		return nil
	}
	return Usage(fmt.Errorf("%s%s\n  usage: %s\n  see %s --help", strings.Join(problems, "; "),
		strings.Join(about, ""), c.UseLine(), c.CommandPath()))
}

const needReason = "give a --reason: it is kept in the audit"

// NeedReason returns a usage error if reason is blank.
func NeedReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return Usage(errors.New(needReason))
	}
	return nil
}

// ReasonFor returns the given reason. A preview needs none because it is not audited; ReasonFor then returns a
// placeholder.
func ReasonFor(c *cobra.Command, given string) string {
	if given == "" && IsPreview(c) {
		return "preview"
	}
	return given
}

// Count returns n and the noun, in the plural unless n is 1.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// guideGroup makes wrong arguments of c and its subcommands usage errors. A command that only has subcommands prints
// its help, or suggests the subcommand that is named like the argument.
func guideGroup(c *cobra.Command) {
	for _, child := range c.Commands() {
		guideGroup(child)
	}
	if c.HasSubCommands() && !c.Runnable() {
		c.Args = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			near := suggestion(c, args[0], "")
			if near == "" {
				near = elsewhere(c, args[0])
			}
			return Usage(fmt.Errorf("there is no command %q%s\n  see %s --help", c.CommandPath()+" "+args[0], near,
				c.CommandPath()))
		}
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		return
	}
	args := c.Args
	c.Args = func(c *cobra.Command, given []string) error {
		return checkLine(c, args, given)
	}
}

// suggestion returns "; did you mean …?" with the commands of c whose names are similar to typed, or "".
func suggestion(c *cobra.Command, typed, before string) string {
	c.SuggestionsMinimumDistance = 2
	var out strings.Builder
	for i, name := range c.SuggestionsFor(typed) {
		if i == 0 {
			out.WriteString("; did you mean ")
		} else {
			out.WriteString(" or ")
		}
		out.WriteString(before + name)
	}
	if out.Len() > 0 {
		out.WriteString("?")
	}
	return out.String()
}

// mostElsewhere is the largest number of commands that elsewhere names: a longer list helps nobody.
const mostElsewhere = 3

// elsewhere returns "; did you mean …?" with the commands of that name in other groups than c, or "" when there are
// none or too many. People often leave the group out: dvt retry.
func elsewhere(c *cobra.Command, typed string) string {
	var found, like []string
	for _, group := range c.Root().Commands() {
		for _, sub := range group.Commands() {
			switch {
			case group == c || !sub.IsAvailableCommand():
			case sub.Name() == typed:
				found = append(found, sub.CommandPath())
			case slices.Contains(sub.SuggestFor, typed):
				like = append(like, sub.CommandPath())
			}
		}
	}
	if len(found) == 0 {
		found = like
	}
	if len(found) == 0 || len(found) > mostElsewhere {
		return ""
	}
	return "; did you mean " + strings.Join(found, " or ") + "?"
}

// DidYouMean returns "; did you mean …?" with the names that are similar to typed, or "".
func DidYouMean(typed string, names []string) string {
	all := &cobra.Command{}
	for _, name := range names {
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return suggestion(all, typed, "")
}

// flagNames returns the flags of c as commands, because cobra suggests similar names for commands only.
func flagNames(c *cobra.Command) *cobra.Command {
	names := &cobra.Command{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return names
}
