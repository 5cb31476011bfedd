package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/installcmd"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config"
)

// devPrincipal is the principal of commands that work on a `dvt dev` without a token.
const devPrincipal = "dev-engineer"

func devCommand() *cobra.Command {
	c := installcmd.ProcessCommand(&cobra.Command{
		Use: "dev", Short: "Run everything in one process, with a sample, to try dvt out",
		Long: "Runs everything in one process on loopback, and prints a link that signs one browser in, once, within " +
			"24 hours.\n" +
			"The browser stays signed in for 30 days, also when dvt dev is started again. Its principals have random " +
			"tokens in the\n" +
			"file `tokens` of the data directory, with the mode 0600. Commands on that directory find the token of " +
			devPrincipal + "\n" +
			"there by themselves.",
	}, true, []string{
		"listen", "data", "no-sample", "store", "redis", "temporal", "temporal-namespace", "temporal-binary",
		"temporal-port", "temporal-ui-port", "artifacts",
		"workspace-max", "workspace-life",
		"project-root", "dbt", "secrets", "plan-roots", "concurrency", "slots-by-type", "slots-by-tenant", "rate-by-type",
		"heartbeat", "write-budget", "rotate-after", "allow-plaintext", "metrics-listen",
		"trace-runs", "trace-sample",
		"sandbox-runtime", "sandbox-image", "sandbox-memory", "sandbox-cpu", "sandbox-pids", "sandbox-disk", "sandbox-max",
		"sandbox-read", "sandbox-write", "sandbox-roots",
		"sandbox-allow-missing",
	}, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		return server.RunDev(ctx, cfg, log, os.Stdout)
	})
	c.AddCommand(devTokenCommand(), devLinkCommand(), devSampleCommand())
	return c
}

// devData returns the data directory in which commands look for a `dvt dev`.
func devData() string {
	return cmp.Or(os.Getenv("DVT_DATA"), fmt.Sprint(config.Defaults(true)["data"]))
}

// dataFlag adds the flag for the directory from which a command reads the tokens.
func dataFlag(c *cobra.Command) *string {
	return c.Flags().String("data", devData(), "data directory of dvt dev (DVT_DATA)")
}

// access reads the tokens of a data directory and returns the token of a principal. The errors carry the exit status: 4
// when the data or the principal does not exist, that of usage when the data cannot be used.
func access(data, principal string) (server.DevAccess, string, error) {
	a, err := server.ReadDevAccess(data)
	switch {
	case errors.Is(err, server.ErrNoDevData):
		return a, "", &cmdline.Error{Status: 4, Err: err}
	case err != nil:
		return a, "", cmdline.Usage(err)
	}
	token, ok := a.Tokens[principal]
	if !ok {
		names := strings.Join(slices.Sorted(maps.Keys(a.Tokens)), ", ")
		return a, "", &cmdline.Error{Status: 4, Err: fmt.Errorf("there is no dev principal %q: the names are %s", principal,
			names)}
	}
	return a, token, nil
}

func devTokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "token NAME", Short: "Print the token of a dev principal, for curl and scripts", Args: cmdline.ExactArgs(1),
		ValidArgsFunction: principalNames,
		Long: "Prints the token of a principal of dvt dev, such as dev-viewer, from the data directory. It is the same " +
			"after each start.\n" +
			"To replace all tokens and sign out all browsers, stop dvt dev, delete the file `tokens` and start again.",
	}
	data := dataFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		_, token, err := access(*data, args[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), token)
		return err
	}
	return c
}

// principalNames completes the names of dev principals for a shell.
func principalNames(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	data, _ := c.Flags().GetString("data") // cannot fail: the flag exists
	a, err := server.ReadDevAccess(data)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(a.Tokens)), cobra.ShellCompDirectiveNoFileComp
}

func devLinkCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "link [NAME]", Short: "Print a new link that signs a browser in, once, within 24 hours",
		Args:              cmdline.RangeArgs(0, 1),
		ValidArgsFunction: principalNames,
		Long: "Asks the dvt dev that runs on the data directory for a new link, for a second browser or one that was " +
			"restarted without its\n" +
			"cookies. The link signs in as NAME, or as " + devPrincipal +
			". A browser that is signed in may switch to any other dev principal.",
	}
	data := dataFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		body, err := askDev(c.Context(), *data, strings.Join(append(args, devPrincipal)[:1], ""), http.MethodPost,
			"/dev/link")
		if err != nil {
			return err
		}
		var link struct{ URL string }
		if err := json.Unmarshal(body, &link); err != nil {
			return fmt.Errorf("the answer of dvt dev is not a link: %w", err)
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), link.URL)
		return err
	}
	return c
}

func devSampleCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "sample NAME", Short: "Print a sample plan, shop or broken, as this dvt dev would run it",
		Args:              cmdline.ExactArgs(1),
		ValidArgsFunction: cobra.FixedCompletions([]cobra.Completion{"shop", "broken"}, cobra.ShellCompDirectiveNoFileComp),
	}
	data := dataFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		body, err := askDev(c.Context(), *data, devPrincipal, http.MethodGet, "/dev/plans/"+url.PathEscape(args[0]))
		if err != nil {
			return err
		}
		_, err = console.Verbatim(c.OutOrStdout()).Write(body)
		return err
	}
	return c
}

// maxDevAnswer bounds an answer of dvt dev, in bytes.
const maxDevAnswer = 1 << 20

// askDev sends a request to the `dvt dev` that runs on a data directory and returns the body of the answer. The token
// goes to the address that the process wrote into the directory.
func askDev(ctx context.Context, data, principal, method, path string) ([]byte, error) {
	a, token, err := access(data, principal)
	if err != nil {
		return nil, err
	}
	if !a.IsRunning() {
		return nil, fmt.Errorf("no `dvt dev` runs on %s: start it, or name another directory with --data or DVT_DATA", data)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+a.Address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("dvt dev does not answer: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDevAnswer))
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusNotFound:
		return nil, &cmdline.Error{Status: 4, Err: errors.New(strings.TrimSpace(string(body)))}
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("dvt dev answered %s: %s", res.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// beDevPrincipal gives the session the token of devPrincipal when its server is the `dvt dev` that runs on the data
// directory of this environment. The session then uses only the address that the process wrote into the directory.
// Another program may listen behind the name localhost, or on the port of a process that has ended.
func (s *session) beDevPrincipal() error {
	u, err := url.Parse(s.server)
	if err != nil {
		return fmt.Errorf("--server %q is not an address: %w", s.server, err)
	}
	if u.Scheme != "http" || !onLoopback(u.Hostname()) {
		return nil // `dvt dev` listens on loopback only
	}
	a, token, err := access(devData(), devPrincipal)
	if errors.Is(err, server.ErrNoDevData) {
		return nil
	}
	if err != nil {
		return err
	}
	if !a.IsDevAddress(u.Host) || !a.IsRunning() {
		return nil
	}
	u.Host = a.Address
	s.server, s.token = u.String(), token
	return nil
}

// runningDev returns the address of the `dvt dev` that runs on the data directory of this environment, or "".
func runningDev() string {
	a, err := server.ReadDevAccess(devData())
	if err != nil || !a.IsRunning() {
		return ""
	}
	return "http://" + a.Address
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// noteReceiver returns the URL for the notifications of a sample: that of the `dvt dev` of this environment, or an
// example that people must replace.
func noteReceiver() string {
	if a, err := server.ReadDevAccess(devData()); err == nil && a.Address != "" {
		return a.NotifyURL()
	}
	return "https://hooks.example.com/notify"
}
