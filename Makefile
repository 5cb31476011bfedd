# `make` alone lists the targets. Everything that is fetched or built for the project itself goes under .tools/, bin/ and web/.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The product needs no C compiler and is built the same way everywhere; one build cache serves it and its tests.
export CGO_ENABLED := 0
# Without paths of this machine in what is built, clones in other directories share the build cache.
export GOFLAGS := $(GOFLAGS) -trimpath
# dbt tells nobody that it runs.
export DO_NOT_TRACK := 1
export DBT_SEND_ANONYMOUS_USAGE_STATS := false

PREPARE := tools/prepare
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Of a release: the tag of the commit where nothing is given.
RELEASE_VERSION = $(if $(filter command line environment,$(origin VERSION)),$(VERSION))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z\/\/-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- use it ---

.PHONY: run
run: ## build everything and start dvt on this machine; ARGS="--listen 127.0.0.1:9090" passes flags on
	@$(PREPARE) go temporal dbt web
	@$(MAKE) bin/dvt
	@PATH="$(CURDIR)/.tools/dbt/bin:$$PATH:$(CURDIR)/.tools/bin"; export PATH; exec bin/dvt dev $(ARGS)

.PHONY: build
build: ## build the UI, then bin/dvt with the UI in it
	@$(PREPARE) go web
	@$(MAKE) bin/dvt

.PHONY: bin/dvt
bin/dvt:
	@[ -x bin/dvt ] || echo "==> building bin/dvt (1 to 3 minutes the first time)"
	@go build -tags disable_grpc_modules -ldflags "-s -w -X main.version=$(VERSION)" -o bin/dvt ./cmd/dvt

# --- ship it ---

RELEASE = go run -C tools/release .

.PHONY: image
image: ## build the image of dvt for linux on amd64 and arm64 into dist/image, without a container engine
	@$(PREPARE) go web
	@mkdir -p dist
	@$(RELEASE) image -root "$(CURDIR)" "$(CURDIR)/dist/image"

.PHONY: image/worker
image/worker: ## build the image of data workers with dbt for this architecture into dist/worker-image, from Debian's packages
	@$(PREPARE) go web dbt
	@mkdir -p dist
	@$(RELEASE) worker-image -root "$(CURDIR)" "$(CURDIR)/dist/worker-image"

.PHONY: release
release: ## build everything of a release into dist/release; VERSION=1.2.3 names it
	@$(PREPARE) go web
	@mkdir -p dist
	@$(RELEASE) build -root "$(CURDIR)" -version "$(RELEASE_VERSION)" "$(CURDIR)/dist/release"

.PHONY: release/check
release/check: ## check the configuration of releases, the changelog and the licences, and list the files of a release
	@$(RELEASE) check -root "$(CURDIR)" -version "$(RELEASE_VERSION)"

.PHONY: release/verify
release/verify: ## verify the release in DIR with the public key KEY, without a network
	@$(RELEASE) verify -key "$(abspath $(KEY))" "$(abspath $(DIR))"

.PHONY: chart/table
chart/table: ## write docs/helm-values.md, the table of the values of the chart
	@go run -C tools/chart . table -root "$(CURDIR)" >docs/helm-values.md

# --- check it ---

.PHONY: test
test: ## run every test once; ONLY="go web" narrows to the named suites; ends with a table of what ran
	@$(PREPARE) go
	@go run ./internal/cmd/suites $(ONLY)

.PHONY: test/long
test/long: ## repeat tests under the race detector, with long model checks, faults and many random draws
	@$(PREPARE) go
	@go run ./internal/cmd/suites -long $(ONLY)

.PHONY: lint
lint: ## run the linters over Go and the UI
	@go run ./internal/cmd/suites lint web-lint

.PHONY: generate/check
generate/check: ## fail when generated code is not what generating gives
	@go run ./internal/cmd/suites generate-check

.PHONY: contract
contract: ## list each acceptance check with the tests that carry its id
	@go run ./internal/cmd/contract

.PHONY: ui-checks
ui-checks: ## run the tests of docs/ui-checks.md and print a row for each check; ONLY="run-truth" narrows them
	@$(PREPARE) go temporal dbt web browser
	@$(MAKE) bin/dvt
	@cd web && PATH="$$PATH:$(CURDIR)/.tools/bin" node checks.js $(ONLY)

.PHONY: soak
soak: ## half an hour of a nightly run of 1,000 steps in one page: its heap must not grow; MINUTES=5 shortens it
	@$(PREPARE) go temporal dbt web browser
	@$(MAKE) bin/dvt
	@cd web && DVT_E2E_SOAK_MINUTES="$(or $(MINUTES),30)" PATH="$$PATH:$(CURDIR)/.tools/bin" npx playwright test e2e/large.spec.ts -g "16 the heap"

.PHONY: campaign
campaign: ## deliver to 50 destinations of which 21 are bad, with a kill -9 every 30 s; MESSAGES=1000000 FOR=8m for a release
	@$(PREPARE) go postgres
	@go test ./notifier -run TestCampaign -v -count=1 -timeout=0 -campaign.messages=$(or $(MESSAGES),100000) -campaign.for=$(or $(FOR),4m) -campaign.kill=30s

.PHONY: drill
drill: ## destroy a loaded database, restore it to 20 moments, repair and verify; EVENTS=1000000 adds a million events
	@$(PREPARE) go temporal postgres redis dbt
	@$(MAKE) bin/dvt
	@DVT_TEST_BINARY="$(CURDIR)/bin/dvt" go test ./server -run TestDrill -v -count=1 -timeout=30m -drill-moments=20 -drill-time=60s -drill-events=$(or $(EVENTS),0)

.PHONY: upgrade
upgrade: ## upgrade and roll back under 500 runs and 1,000 viewers, about 7 minutes
	@$(PREPARE) go temporal postgres redis dbt
	@$(MAKE) bin/dvt
	@TEST_LONG=1 DVT_TEST_BINARY="$(CURDIR)/bin/dvt" go test ./server -run Upgrade_NobodyNotices -v -count=1 -timeout=30m

.PHONY: sites
sites: ## lose a site, promote the other one, and let the first one come back; about 10 minutes
	@$(PREPARE) go temporal postgres redis dbt
	@$(MAKE) bin/dvt
	@TEST_LONG=1 PATH="$(CURDIR)/.tools/dbt/bin:$$PATH" DVT_TEST_BINARY="$(CURDIR)/bin/dvt" go test ./server -run TestSite_ -v -count=1 -timeout=40m

.PHONY: bench
bench: ## measure every claim of speed, about 20 minutes; ONLY="name" narrows, RESULTS=file keeps the lines
	@$(PREPARE) go postgres redis temporal bench web browser
	@$(MAKE) bin/dvt
	@mkdir -p bin && go build -C bench/peers -o ../../bin/bench-peers . || echo "==> the peers of bench/peers could not be built: figures that need them say so"
	@go run ./bench -only "$(ONLY)" -results "$(RESULTS)"

# --- change it ---

.PHONY: fmt
fmt: ## format the Go code and the UI
	@$(PREPARE) lint npm
	@.tools/bin/golangci-lint fmt
	@cd web && npm run --silent fmt

.PHONY: hooks
hooks: ## let git check format, vet and the rules of the repository before each commit, in seconds
	@ln -sf "$(CURDIR)/tools/pre-commit" "$$(git rev-parse --git-path hooks)/pre-commit"

.PHONY: generate
generate: ## write all generated code
	@$(PREPARE) go npm
	@go generate ./...
	@cd web && npm run --silent generate

.PHONY: histories
histories: ## record the histories of Temporal that the replay tests lack, from runs on a real server
	@$(PREPARE) go temporal
	@PATH="$$PATH:$(CURDIR)/.tools/bin" go test ./engine/temporal -run TestReplay_AcceptsTheRecordedHistories -capture -count=1 -timeout 15m

.PHONY: advisories
advisories: ## replace the advisories that the suite vuln reads by today's, from the Go vulnerability database
	@python3 tools/govulncheck/refresh.py

.PHONY: docs/screenshots
docs/screenshots: ## take the pictures of the guides from the real UI, and what is on them in words, into docs/images
	@$(PREPARE) go temporal dbt web browser
	@$(MAKE) bin/dvt
	@cd web && PATH="$$PATH:$(CURDIR)/.tools/bin" npx playwright test --config playwright.docs.ts

.PHONY: clean
clean: ## remove what was built; what was fetched (.tools) and your runs (.dvt) stay
	rm -rf bin .tools/stamp/web .tools/logs
	find web/dist -mindepth 1 ! -name .keep -delete

# --- the parts, one by one ---

.PHONY: tools/temporal tools/postgres tools/redis tools/bench tools/browser tools/dbt tools/dbt-versions tools/lint tools/workflowcheck tools/govulncheck tools/promcheck tools/webhooks tools/openbao tools/moto tools/buckets tools/runc web
tools/temporal: ## the Temporal CLI, whose dev server runs the workflows
tools/postgres: ## a PostgreSQL for the tests
tools/redis: ## a Redis for the tests
tools/bench: ## pgbench, strace and a C compiler for the benchmarks
tools/browser: ## a Chromium for the end-to-end tests
tools/dbt: ## dbt in a virtual environment of its own
tools/dbt-versions: ## further versions of dbt, for the suite that compares them
tools/lint: ## golangci-lint
tools/workflowcheck: ## Temporal's check of workflow code
tools/govulncheck: ## the check for known vulnerabilities
tools/promcheck: ## the check of rules and dashboards, on the engine of Prometheus
tools/webhooks: ## three verifiers of webhooks that are not ours
tools/openbao: ## an OpenBao, the store of secrets, for the tests
tools/moto: ## a server with the APIs of AWS that is not ours, for the tests
tools/runc: ## runc, which runs containers of the images in tests
web: ## the UI into web/dist
tools/temporal tools/postgres tools/redis tools/bench tools/browser tools/dbt tools/dbt-versions tools/lint tools/workflowcheck tools/govulncheck tools/promcheck tools/webhooks tools/openbao tools/moto tools/buckets tools/runc web:
	@$(PREPARE) $(@F)
