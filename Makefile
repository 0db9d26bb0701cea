# All that a person or .ci/run does here. Everything that is built goes to .bin/; real components and their pins are in
# integration/tools. The first build of the components takes a while (`make tools`), later ones only what changed.

.DEFAULT_GOAL := help
# One at a time: to link a Kubernetes component takes more than 2 GB, and the tests have deadlines.
.NOTPARALLEL:
SHELL         := bash
.SHELLFLAGS   := -euo pipefail -c

include integration/tools/tools.mk

FUZZTIME ?= 60s
# The checkout may belong to another user, as in a container.
GIT      := git -c safe.directory=*
VERSION  ?= $(shell $(GIT) describe --tags --always --dirty 2>/dev/null || echo devel)

# Two sets of build flags, since they are part of Go's cache key: this one, which most components have too, for what
# runs and for lint, and -race for what is tested. A third would compile containerd and client-go once more.
STATIC   := CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false'
GO_BUILD := $(STATIC) go build -ldflags '-s -X main.version=$(VERSION)'
# A result depends on binaries and on the machine, which Go's cache of test results does not see: -count=1.
GO_TEST  := go test -race
LIVE     := $(GO_TEST) -count=1 -timeout
MODULES  := . integration $(patsubst %/go.mod,%,$(wildcard $(TOOLS)/*/go.mod))
LINT     := $(BIN)/golangci-lint
# The whole work tree, with what is not committed, as a git tree object.
SNAPSHOT := GIT_INDEX_FILE=$$(mktemp -u) bash -ec 'trap "rm -f $$GIT_INDEX_FILE" EXIT; $(GIT) add -A; $(GIT) write-tree'

.PHONY: help
help: ## show this
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the static binary: .bin/prewarm
	$(GO_BUILD) -o $(BIN)/prewarm ./cmd/prewarm

# The image's time is that of the commit, so that a commit has one image.
IMAGE := $(BIN)/image
.PHONY: image
image: $(BIN)/image-tool ## build the container image for amd64 and arm64 into .bin/image (PUSH=registry/name:tag pushes it)
	@for arch in amd64 arm64; do GOOS=linux GOARCH=$$arch $(GO_BUILD) -o $(IMAGE)/prewarm-$$arch ./cmd/prewarm; done
	@$(BIN)/image-tool -out $(IMAGE) -version '$(VERSION)' -revision "$$($(GIT) rev-parse HEAD 2>/dev/null || echo unknown)" \
		-created "$${SOURCE_DATE_EPOCH:-$$($(GIT) log -1 --format=%ct 2>/dev/null || echo 0)}" $(if $(PUSH),-push '$(PUSH)') \
		linux/amd64=$(IMAGE)/prewarm-amd64 linux/arm64=$(IMAGE)/prewarm-arm64

.PHONY: verify
verify: ## tidy, generate, lint, docs; fails if that changes any file
	@before=$$($(SNAPSHOT)); \
	$(MAKE) --no-print-directory tidy-diff generate lint docs; \
	$(GIT) diff --exit-code --name-status "$$before" "$$($(SNAPSHOT))" || \
		{ echo 'verify: the files above were not up to date; they are now: commit them' >&2; exit 1; }

.PHONY: tidy tidy-diff
tidy: ## tidy the go.mod of every module
	@for m in $(MODULES); do (cd $$m && go mod tidy) || exit 1; done
tidy-diff:
	@for m in $(MODULES); do (cd $$m && go mod tidy -diff) || { echo "verify: $$m/go.mod is not tidy: make tidy" >&2; exit 1; }; done

.PHONY: generate
generate: ## write what is generated from code
	go generate ./...
	cd integration && go generate ./...

.PHONY: lint
lint: $(LINT) $(BIN)/dockerlint ## golangci-lint in both modules (.golangci.yml says what and why), and the Dockerfile
	$(LINT) config verify
	$(BIN)/dockerlint Dockerfile
	$(STATIC) $(LINT) run ./...
	cd integration && $(STATIC) $(LINT) run ./...

.PHONY: docs
docs: ## check the links, targets and promises of the documentation
	go test -count=1 -run '^TestDocs' .

.PHONY: fmt
fmt: $(LINT) ## format the code
	$(LINT) fmt ./...
	cd integration && $(LINT) fmt ./...

.PHONY: test
test: need-root build tools-runtime ## all tests but e2e: units, and the real containerd
	$(GO_TEST) ./...
	cd integration && $(LIVE) 10m ./harness/... ./images/... ./runtime/... ./cmd/demo/...

.PHONY: e2e
e2e: need-root build tools image $(BIN)/pause $(BIN)/dockerlint ## tests on the real API server, of the lab, and of the manifests with Karpenter, kubelet and the image
	cd integration && $(LIVE) 30m -p 1 ./cmd/lab/... ./e2e/... ./cluster/... ./image/...

.PHONY: demo
demo: need-root build tools-runtime $(BIN)/demo ## see it work: a private containerd, two images, one is lost and comes back
	$(BIN)/demo

.PHONY: lab
lab: need-root build tools $(BIN)/lab ## run registry, containerd and API server until Ctrl-C
	$(BIN)/lab

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (60s)
	@go test -list '^Fuzz' ./... | awk '/^Fuzz/ { f[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, f[i]; n = 0 }' | \
	while read -r pkg target; do \
		go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "$$pkg" </dev/null; \
	done

.PHONY: bench
bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: clean
clean: ## remove all that was built (Go's own cache stays, so it is soon back)
	rm -rf $(BIN) integration/testdata/cache

.PHONY: need-root FORCE
need-root:
	@[ "$$(id -u)" = 0 ] || { echo 'containerd mounts snapshots: run this as root (in a container or a VM is fine)' >&2; exit 1; }

$(BIN)/image-tool: FORCE
	cd integration && $(GO_BUILD) -o $@ ./cmd/image

# Go itself knows best what is current.
$(BIN)/demo $(BIN)/lab $(BIN)/pause: FORCE
	cd integration && $(GO_BUILD) -o $@ ./cmd/$(@F)

$(LINT): go.tools.mod go.tools.sum
	$(STATIC) go build -modfile=go.tools.mod -ldflags -s -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
