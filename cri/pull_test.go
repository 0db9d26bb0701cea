package cri

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A runtime that takes connections and answers nothing keeps nobody from ending a pull.
func TestAPullEndsThoughTheRuntimeHangs(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	native, err := containerd.NewWithConn(conn)
	if err != nil {
		t.Fatal(err)
	}
	r := &Runtime{native: native, info: Info{Snapshotter: "overlayfs"}, log: slog.New(slog.DiscardHandler)}
	img := Image{Layers: []Layer{{Digest: digest.FromString("a"), ChainID: digest.FromString("chain"), Size: 100}}}
	seen := make([]sight, len(img.Layers))
	seen[0] = sight{here: 40, state: LayerFetching}
	tr := newTracker(img, "a", seen, time.Now())
	stopped := &Error{Reason: ReasonCanceled, Noun: "a", Err: context.Canceled}
	begun, told := time.Now(), false
	r.finish(t.Context(), img, tr, nil, leases.Lease{}, stopped, func(p Progress, err error) bool {
		told = p.Bytes.Present == 40 && ReasonOf(err) == ReasonCanceled
		return true
	})
	if took := time.Since(begun); took > 2*lastLook || !told {
		t.Errorf("ended after %v, told what it had come to: %v", took, told)
	}
}
