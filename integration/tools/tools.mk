# The real components of the tests and of the demo, built from their Go modules. Every folder beside this file is a Go
# module of its own that pins one component (its `tool` lines), so that each is built with the dependencies that its
# makers chose. A binary is rebuilt when its module's pins change, and only then.
#
# One set of flags for all: they are part of Go's cache key, so a second set would build everything a second time.

BIN        ?= $(CURDIR)/.bin
TOOLS      := integration/tools
pin         = $(shell sed -n 's|^[[:space:]]*$(2) \(v[^ ]*\).*|\1|p' $(TOOLS)/$(1)/go.mod | head -1)
pins        = $(TOOLS)/$(1)/go.mod $(TOOLS)/$(1)/go.sum $(TOOLS)/tools.mk
# $(call tool,MODULE FOLDER,PACKAGE,TAGS,LDFLAGS): -s drops the symbol table, which no test reads, and halves link time.
tool        = cd $(TOOLS)/$(1) && CGO_ENABLED=0 GOWORK=off go build -trimpath -tags '$(3)' -ldflags '-s $(4)' -o $@ $(2)

RUNTIME_TOOLS := $(addprefix $(BIN)/,containerd containerd-shim-runc-v2 ctr crictl)
CLUSTER_TOOLS := $(addprefix $(BIN)/,etcd kube-apiserver kubectl kube-controller-manager kube-scheduler karpenter kwok)
POD_TOOLS     := $(addprefix $(BIN)/,kubelet runc ptp host-local)

CONTAINERD_PKG := github.com/containerd/containerd/v2
CONTAINERD_TAGS := no_btrfs,no_devmapper,no_zfs,urfave_cli_no_docs
CONTAINERD_LD  = -X $(CONTAINERD_PKG)/version.Version=$(call pin,containerd,$(CONTAINERD_PKG))
KUBE_VERSION   = $(call pin,kubernetes,k8s.io/kubernetes)
KUBE_LD        = -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION) -X k8s.io/client-go/pkg/version.gitVersion=$(KUBE_VERSION)

.PHONY: tools tools-runtime tools-cluster
tools-runtime: $(RUNTIME_TOOLS) ## build containerd, its shim, ctr and crictl into .bin/
tools-cluster: $(CLUSTER_TOOLS) ## build etcd, the control plane, kubectl, Karpenter and kwok into .bin/
tools: tools-runtime tools-cluster $(POD_TOOLS) ## all of these, and kubelet, runc and the network plugins

$(BIN)/containerd $(BIN)/containerd-shim-runc-v2 $(BIN)/ctr: $(call pins,containerd)
	$(call tool,containerd,$(CONTAINERD_PKG)/cmd/$(@F),$(CONTAINERD_TAGS),$(CONTAINERD_LD))

$(BIN)/crictl: $(call pins,crictl)
	$(call tool,crictl,sigs.k8s.io/cri-tools/cmd/crictl,,-X sigs.k8s.io/cri-tools/pkg/version.Version=$(call pin,crictl,sigs.k8s.io/cri-tools))

$(BIN)/etcd: $(call pins,etcd)
	$(call tool,etcd,go.etcd.io/etcd/server/v3,,)

$(BIN)/kube-apiserver $(BIN)/kubectl $(BIN)/kube-controller-manager $(BIN)/kube-scheduler $(BIN)/kubelet: $(call pins,kubernetes)
	$(call tool,kubernetes,k8s.io/kubernetes/cmd/$(@F),,$(KUBE_LD))

# Karpenter with the provider whose nodes are kwok's.
$(BIN)/karpenter: $(call pins,karpenter)
	$(call tool,karpenter,sigs.k8s.io/karpenter/kwok,,)

$(BIN)/kwok: $(call pins,kwok)
	$(call tool,kwok,sigs.k8s.io/kwok/cmd/kwok,,)

# runc calls libseccomp, which the kubelet wants for every sandbox (RuntimeDefault): the one component that needs C.
$(BIN)/runc: $(call pins,runc)
	cd $(TOOLS)/runc && CGO_ENABLED=1 GOWORK=off go build -trimpath -tags 'seccomp urfave_cli_no_docs netgo osusergo' \
		-ldflags '-s -linkmode external -extldflags -static -X main.version=$(patsubst v%,%,$(call pin,runc,github.com/opencontainers/runc))' \
		-o $@ github.com/opencontainers/runc

$(BIN)/ptp: $(call pins,cni)
	$(call tool,cni,github.com/containernetworking/plugins/plugins/main/$(@F),,)
$(BIN)/host-local: $(call pins,cni)
	$(call tool,cni,github.com/containernetworking/plugins/plugins/ipam/$(@F),,)

# BuildKit's rules for Dockerfiles, which are a library: the one program here that is ours.
$(BIN)/dockerlint: $(call pins,dockerlint) $(TOOLS)/dockerlint/main.go
	$(call tool,dockerlint,.,,)
