package cmdline

import (
	"strings"

	"github.com/spf13/cobra"
)

// Examples are the command lines in the help of each command, by its path. A test parses each with the flags of the
// command.
var Examples = map[string]string{
	"dvt alerts ack":         "dvt alerts ack 0d3c77e1-6a52-4f0e-9d0b-6f5a3c1b2a10 --note \"restarting the worker\"",
	"dvt alerts list":        "dvt alerts list\ndvt alerts list --all --since 7d --level high -o json",
	"dvt alerts show":        "dvt alerts show 0d3c77e1-6a52-4f0e-9d0b-6f5a3c1b2a10",
	"dvt alerts silence":     "dvt alerts silence --code TIMEOUT --plan nightly --for 8h --reason \"the source is slow today\"",
	"dvt incidents list":     "dvt incidents list\ndvt incidents list --all -o json",
	"dvt incidents show":     "dvt incidents show 0d3c77e1-6a52-4f0e-9d0b-6f5a3c1b2a10",
	"dvt incidents ack":      "dvt incidents ack 0d3c77e1-6a52-4f0e-9d0b-6f5a3c1b2a10 --note \"looking at the worker\"",
	"dvt incidents note":     "dvt incidents note 0d3c77e1-6a52-4f0e-9d0b-6f5a3c1b2a10 --note \"the disk is full\"",
	"dvt incidents severity": "dvt incidents severity 0d3c77e1-6a52-4f0e-9d0b-6f5a3c1b2a10 sev-1 --note \"all runs stand still\"",
	"dvt incidents close":    "dvt incidents close 0d3c77e1-6a52-4f0e-9d0b-6f5a3c1b2a10 --note \"more disk\"",
	"dvt tenant recovery":    "dvt tenant recovery observe --reason \"we retry ourselves\"",
	"dvt alerts silences":    "dvt alerts silences\ndvt alerts silences --end 0d3c77e1-6a52-4f0e-9d0b-6f5a3c1b2a10",
	"dvt alerts watch":       "dvt alerts watch\ndvt alerts watch --level high",
	"dvt retention get":      "dvt retention get\ndvt retention get -o json | jq .own > retention.yaml",
	"dvt retention set":      "dvt retention set retention.yaml --expected-version 3 --reason \"a year is enough\"",
	"dvt retention preview":  "dvt retention preview retention.yaml",
	"dvt retention history":  "dvt retention history",
	"dvt hold place":         "dvt hold place --plan nightly --reason \"case 12\"\ndvt hold place --subject ola --reason \"case 12\"",
	"dvt hold lift":          "dvt hold lift 0d3c77e1-6a52-5f0e-9d0b-6f5a3c1b2a10 --reason \"case 12 is closed\"",
	"dvt hold list":          "dvt hold list\ndvt hold list --all -o json",
	"dvt audit export": "dvt audit export --from 2026-11-21T00:00:00Z --outcome DENIED\ndvt audit export --run " +
		"4fec12ab --format csv > audit.csv",
	"dvt audit verify":       "dvt audit verify\ndvt audit verify --head 4120:9f2c",
	"dvt break-glass end":    "dvt break-glass end",
	"dvt break-glass status": "dvt break-glass status",
	"dvt break-glass take":   "dvt break-glass take sre --minutes 30 --reason \"the store is full\"",
	"dvt bulk list":          "dvt bulk list",
	"dvt bulk rerun": "dvt bulk rerun --status failed --since 12h --from failed --reason \"the source is back\"\ndvt " +
		"bulk rerun --ids-from ids.txt --from load --param day=2026-02-17 --reason \"wrong day\" --preview\ndvt bulk rerun " +
		"--plan nightly --status failed,cancelled --from start --reason \"fixed\" --yes --watch",
	"dvt bulk stop": "dvt bulk stop ID --reason mistake",
	"dvt bulk show": "dvt bulk show ID --failed\ndvt bulk show ID --limit 5000 -o json | jq -r " +
		"'.rows[] | [.runId, .outcomeRaw] | @csv'",
	"dvt bulk signal": "dvt bulk signal pause --status running --project shop --reason \"release\"\ndvt bulk " +
		"signal cancel --ids-from ids.txt --yes --reason \"wrong plan\"\ndvt bulk signal retry --step load --failed-of ID " +
		"--reason \"the table is back\"",
	"dvt bulk watch":      "dvt bulk watch ID && deploy",
	"dvt completion bash": "source <(dvt completion bash)",
	"dvt completion fish": "dvt completion fish | source",
	"dvt completion zsh":  "source <(dvt completion zsh)",
	"dvt context delete":  "dvt context delete old",
	"dvt context list":    "dvt context list",
	"dvt context set": "dvt context set prod --server https://dvt.example.com --token-file " +
		"~/.config/dvt/prod.token\ndvt context set ci --server https://dvt.example.com --token-env DVT_CI_TOKEN",
	"dvt context show":         "dvt context show",
	"dvt context use":          "dvt context use prod",
	"dvt dead-letters list":    "dvt dead-letters list\ndvt dead-letters list --run 4fec12ab --all",
	"dvt dead-letters redrive": "dvt dead-letters redrive --run 4fec12ab\ndvt dead-letters redrive --all-open",
	"dvt secrets who-read":     "dvt secrets who-read --key db/warehouse#password --since 7d\ndvt secrets who-read --run 4fec12ab -o json",
	"dvt secrets export":       "dvt secrets export > secret-reads.jsonl",
	"dvt secrets check":        "dvt secrets check nightly.yaml\ndvt secrets check nightly.yaml -o json",
	"dvt secrets revoke":       "dvt secrets revoke --reason \"the password leaked\" --yes\ndvt secrets revoke --tenant acme --run 4fec12ab-91c8-4e67-9d0b-6f5a3c1b2a10 --reason \"the password leaked\" --yes",
	"dvt destinations list":    "dvt destinations list\ndvt destinations list -o json",
	"dvt destinations show":    "dvt destinations show hook",
	"dvt destinations test":    "dvt destinations test hook",
	"dvt destinations enable":  "dvt destinations enable hook --preview\ndvt destinations enable hook --reason \"the receiver is back\"",
	"dvt destinations disable": "dvt destinations disable hook --reason \"the receiver moves\"",
	"dvt destinations replay": "dvt destinations replay hook --since 2h --preview\ndvt destinations replay hook --since " +
		"2026-11-28T06:00:00Z --until 1h --type RunFailed --reason \"the receiver lost them\"",
	"dvt destinations dead-letters": "dvt destinations dead-letters hook --limit 200",
	"dvt destinations redrive": "dvt destinations redrive hook --all --preview\ndvt destinations redrive hook 812 813 " +
		"--reason \"the receiver is corrected\"",
	"dvt dev":        "dvt dev\ndvt dev --listen 127.0.0.1:9090 --data ./mine",
	"dvt dev link":   "dvt dev link\ndvt dev link dev-viewer --data ./mine",
	"dvt dev sample": "dvt dev sample broken > broken.json",
	"dvt dev token":  "dvt dev token dev-viewer\ndvt dev token dev-engineer --data ./mine",
	"dvt doctor":     "dvt doctor\ndvt doctor @failed\ndvt doctor 4fec12ab -o json",
	"dvt health":     "dvt health\ndvt health --context prod -o json\ndvt health --metrics 127.0.0.1:9464",
	"dvt manual complete": "dvt manual complete 4fec12ab release --outcome succeeded --preview\ndvt manual complete 4fec12ab release " +
		"--outcome succeeded --notes \"figures match\"",
	"dvt manual list": "dvt manual list\ndvt manual list --run 4fec12ab",
	"dvt preflight": "dvt preflight --config /etc/dvt/dvt.yaml --peers 6\n" +
		"dvt preflight --config worker.yaml -o json",
	"dvt smoke": "dvt smoke --project ops --environment staging\n" +
		"dvt smoke --project ops --environment staging --notify https://hooks.example/dvt --dbt /srv/dbt/check --drain",
	"dvt config check":    "dvt config check --config /etc/dvt/dvt.yaml",
	"dvt config explain":  "dvt config explain shutdown-delay --config /etc/dvt/dvt.yaml",
	"dvt temporal setup":  "dvt temporal setup --config /etc/dvt/dvt.yaml --dry-run",
	"dvt temporal status": "dvt temporal status --config /etc/dvt/dvt.yaml -o json",
	"dvt temporal unused": "dvt temporal unused --config /etc/dvt/dvt.yaml",
	"dvt migrate": "dvt migrate --store 'postgres://owner@db/dvt?sslmode=verify-full' --app-role dvt\n" +
		"dvt migrate --store 'postgres://dvt@db/dvt?sslmode=verify-full' --status",
	"dvt plan new":       "dvt plan new > plan.yaml\ndvt plan new nightly.yaml --type dbt",
	"dvt plan test":      "dvt plan test nightly.yaml\ndvt plan test nightly.yaml --script fails.yaml",
	"dvt plan validate":  "dvt plan validate nightly.yaml\nmake-plan | dvt plan validate - -o json",
	"dvt policy history": "dvt policy history --limit 5",
	"dvt policy who":     "dvt policy who retry 4fec12ab\ndvt policy who complete 4fec12ab\ndvt policy who start --project shop --environment prod",
	"dvt policy set":     "dvt policy set policy.yaml --expected-version 41 --reason \"ben joins shop\"",
	"dvt policy show":    "dvt policy show > policy.yaml",
	"dvt queue list":     "dvt queue list\ndvt queue list --project shop",
	"dvt quota history":  "dvt quota history",
	"dvt quota set":      "dvt quota set quota.yaml --expected-version 3 --reason \"month end\"",
	"dvt quota show":     "dvt quota show > quota.yaml",
	"dvt run alert":      "dvt run alert 4fec12ab --level high --note \"twice as slow as yesterday\"",
	"dvt run approve": "dvt run approve 4fec12ab --reason \"reviewed\"\ndvt run approve 4fec12ab --reject " +
		"--reason \"wrong month\"",
	"dvt run artifacts": "dvt run artifacts 4fec12ab --kind dbt-manifest\ndvt run artifacts 4fec12ab --get run_results.json " +
		"--step build\ndvt run artifacts 4fec12ab --all --to ./artifacts",
	"dvt run cancel":  "dvt run cancel 4fec12ab --preview\ndvt run cancel 4fec12ab --yes --reason \"wrong data\"",
	"dvt run compare": "dvt run compare @failed\ndvt run compare 4fec12ab 91c4bccd --all",
	"dvt run diff":    "dvt run diff 4fec12ab 812\ndvt run diff 4fec12ab 812 830 -o json | jq '.steps[].stepId'",
	"dvt run events": "dvt run events 4fec12ab --type StepFailed\ndvt run events 4fec12ab --follow --after " +
		"812 -o json | jq .payload",
	"dvt run list": "dvt run list --status failed --limit 50\ndvt run list --attention\ndvt run list --text nightly -o json | jq -r " +
		"'.[].runId'",
	"dvt run logs": "dvt run logs @failed --failed\ndvt run logs 4fec12ab build -f\ndvt run logs 4fec12ab " +
		"--all --grep ERROR\ndvt run logs 4fec12ab build --attempt 1 --grep ERROR --timestamps",
	"dvt run note":     "dvt run note 4fec12ab \"the source was late\"\ndvt run note 4fec12ab",
	"dvt run open":     "dvt run open @last\ndvt run open 4fec12ab build --print",
	"dvt run override": "dvt run override 4fec12ab build threads.yaml --reason \"the warehouse is slow\"",
	"dvt run pause": "dvt run pause 4fec12ab --reason lunch\ndvt run pause 4fec12ab --no-wait " +
		"--signal-id pause-1",
	"dvt run plan": "dvt run plan 4fec12ab > plan.yaml\ndvt run plan @last -o json | jq '.steps[].stepId'",
	"dvt run rerun": "dvt run rerun @failed --watch\ndvt run rerun 4fec12ab --from " +
		"build,test --preview\ndvt run rerun 4fec12ab --from start --param day=2026-02-17",
	"dvt run resume": "dvt run resume 4fec12ab",
	"dvt run retry": "dvt run retry @failed --preview\ndvt run retry 4fec12ab build --nodes failed --preview\ndvt run retry 4fec12ab build --force --reason " +
		"\"the disk has room again\"",
	"dvt run search":     "dvt run search @failed timeout\ndvt run search 4fec12ab \"out of memory\" --runs 10",
	"dvt run set-target": "dvt run set-target 4fec12ab build --schema restored --reason \"keep the old one\"",
	"dvt run share":      "dvt run share @failed",
	"dvt dbt why":        "dvt dbt why @last orders\ndvt dbt why 4fec12ab model.shop.orders --step build -o json",
	"dvt run nodes":      "dvt run nodes @failed\ndvt run nodes @failed build --status failed,skipped\ndvt run nodes 4fec12ab build --limit 5000 -o json",
	"dvt run step":       "dvt run step @failed build\ndvt run step 4fec12ab build --attempt 1 -o json",
	"dvt run show":       "dvt run show @last\ndvt run show 4fec12ab --at 812\ndvt run show 4fec12ab -o yaml",
	"dvt run skip":       "dvt run skip 4fec12ab notify --reason \"told them by phone\"",
	"dvt run start": "dvt run start nightly.yaml --watch\nmake-plan | dvt run start - --request-id " +
		"nightly-2026-11-21",
	"dvt run stop": "dvt run stop 4fec12ab --reason runaway\ndvt run stop 4fec12ab --force --yes " +
		"--reason runaway",
	"dvt run tag":           "dvt run tag 4fec12ab team:data late\ndvt run tag 4fec12ab --remove late",
	"dvt run update-params": "dvt run update-params 4fec12ab params.yaml --step build",
	"dvt run watch": "dvt run watch @last\ndvt run watch 4fec12ab && deploy\ndvt run watch 4fec12ab | " +
		"grep FAILED",
	"dvt server":          "dvt server --config dvt.yaml",
	"dvt service drain":   "dvt service drain data-1/host-7/4711 --reason \"a new kernel\"",
	"dvt service undrain": "dvt service undrain data-1/host-7/4711 --reason \"the kernel is new\"",
	"dvt service mode":    "dvt service mode read-only --reason \"the store moves\"",
	"dvt service status":  "dvt service status",
	"dvt service workers": "dvt service workers",
	"dvt dr promote": "dvt dr promote --config dvt.yaml --dry-run\n" +
		"dvt dr promote --config dvt.yaml --repair-from-engine --yes --reason \"region A is lost\"",
	"dvt dr status":        "dvt dr status --config dvt.yaml",
	"dvt store epoch bump": "dvt store epoch bump --store 'postgres://dvt@db/dvt?sslmode=verify-full'",
	"dvt store erase": "dvt store erase 0b6f3c52-7d55-5f0e-9d8e-0c1b4d2a9f11 --config owner.yaml\n" +
		"dvt store erase 0b6f3c52-7d55-5f0e-9d8e-0c1b4d2a9f11 --config owner.yaml --yes > certificate.json",
	"dvt store replay-erasures": "dvt store replay-erasures --config owner.yaml",
	"dvt store export":          "dvt store export runs.jsonl.gz --store 'postgres://dvt@db/dvt?sslmode=verify-full'",
	"dvt store import":          "dvt store import runs.jsonl.gz --store 'postgres://dvt@db/dvt?sslmode=verify-full'",
	"dvt store rebuild":         "dvt store rebuild --store 'postgres://dvt@db/dvt?sslmode=verify-full'",
	"dvt store repair":          "dvt store repair --from-engine --config dvt.yaml",
	"dvt store verify":          "dvt store verify --store 'postgres://dvt@db/dvt?sslmode=verify-full'",
	"dvt tenant share-links": "dvt tenant share-links --hours 24 --reason \"links in our chat\"\ndvt tenant share-links " +
		"--hours 0 --reason \"a link leaked\"",
	"dvt erasure cancel":  "dvt erasure cancel 0b6f3c52-7d55-5f0e-9d8e-0c1b4d2a9f11 --reason \"the contract goes on\"",
	"dvt erasure confirm": "dvt erasure confirm 0b6f3c52-7d55-5f0e-9d8e-0c1b4d2a9f11 --reason \"asked by letter\"",
	"dvt erasure list":    "dvt erasure list",
	"dvt erasure verify":  "dvt erasure verify certificate.json --key heads.pub",
	"dvt tenant export": "dvt tenant export acme --to /backup/acme --reason \"the contract ends\" --config owner.yaml\n" +
		"dvt tenant export acme --to acme.tar.zst --rate 20M --reason \"the contract ends\" --config owner.yaml",
	"dvt subject export": "dvt subject export ana@example.org --tenant acme --to ana.tar.gz --reason \"asked by letter\" " +
		"--config owner.yaml",
	"dvt export verify":   "dvt export verify /backup/acme\ndvt export verify acme.tar.zst -o json",
	"dvt subject erase":   "dvt subject erase ana@example.org --reason \"asked by letter of 20 November\"",
	"dvt tenant purge":    "dvt tenant purge acme --reason \"the contract has ended\"",
	"dvt tenant freeze":   "dvt tenant freeze --reason \"month end\"",
	"dvt tenant unfreeze": "dvt tenant unfreeze --reason \"month end is done\"",
	"dvt token create":    "dvt token create ci --role OPERATOR --project shop --days 30",
	"dvt token list":      "dvt token list --everybody",
	"dvt token revoke":    "dvt token revoke 7f3a --reason \"it leaked\"",
	"dvt version":         "dvt version -o json",
	"dvt whoami":          "dvt whoami --context prod",
	"dvt worker": "dvt worker --queues tq-control-prod --config dvt.yaml\ndvt worker --queues " +
		"tq-data-prod --server https://dvt.example.com --temporal temporal:7233 --temporal-tls on",
	"dvt workflow debug": "dvt workflow debug 4fec12ab",
	"dvt workflow new": "dvt workflow new nightly\ndvt workflow new load --type dbt --project shop " +
		"--environment prod",
	"dvt workflow capture": "dvt workflow capture /srv/dvt/histories --config dvt.yaml",
	"dvt workflow replay":  "temporal workflow show -w dvt/acme/4fec12ab -o json | dvt workflow replay -",
	"dvt trace export":     "dvt trace export @failed > trace.json\ndvt trace export 4fec12ab --send",
}

// otherNames are words that people type for a command, by its path. The error for such a word names the command.
var otherNames = map[string][]string{
	"dvt run list": {"ls", "ps"}, "dvt run show": {"status", "get", "describe", "info"},
	"dvt run start": {"create", "submit", "launch", "trigger"}, "dvt run rerun": {"restart", "again", "repeat"},
	"dvt run cancel": {"kill", "abort", "delete", "terminate"}, "dvt run approve": {"reject", "approvals"},
	"dvt run resume": {"unpause", "continue"}, "dvt run watch": {"follow", "tail"}, "dvt run compare": {"cmp"},
	"dvt run update-params": {"params", "set-params"}, "dvt run alert": {"escalate"}, "dvt run artifacts": {"files"},
	"dvt manual complete": {"finish", "done"}, "dvt bulk signal": {"send", "pause", "cancel", "retry"},
	"dvt plan validate": {"check", "lint"}, "dvt policy who": {"can", "could"}, "dvt policy set": {"apply", "edit"},
	"dvt queue list": {"show"}, "dvt service status": {"show"}, "dvt token revoke": {"delete"},
	"dvt token create": {"new"}, "dvt dead-letters redrive": {"retry"},
}

// AddExamples gives each command its examples, and the words that people type for it.
func AddExamples(c *cobra.Command) {
	c.SuggestFor = append(c.SuggestFor, otherNames[c.CommandPath()]...)
	if text := Examples[c.CommandPath()]; text != "" {
		c.Example = "  " + strings.ReplaceAll(text, "\n", "\n  ")
	}
	for _, child := range c.Commands() {
		AddExamples(child)
	}
}
