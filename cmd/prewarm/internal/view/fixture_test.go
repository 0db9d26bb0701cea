package view

import (
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/cri"
)

// epoch is when the pulls of these tests begin.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) //nolint:gochecknoglobals // a constant

const ref = "registry.example/team/app:1.0"

// layer makes the progress of a layer whose digest is its number again and again.
func layer(n int, state cri.LayerState, fetched, size int64) cri.LayerProgress {
	return cri.LayerProgress{
		Digest: digest.Digest("sha256:" + fmt.Sprintf("%012d%052d", n, 0)), ChainID: digest.FromString(fmt.Sprint(n)),
		Size: size, Fetched: fetched, State: state, Since: epoch,
	}
}

// pulling makes the progress of an image of which everything that layers show is fetched by this pull.
func pulling(layers ...cri.LayerProgress) cri.Progress {
	p := cri.Progress{
		Image: ref, Reference: ref, Digest: digest.FromString("image"), Phase: cri.PhasePulling,
		Detail: cri.DetailLayers, StartedAt: epoch, Layers: layers,
	}
	for _, l := range layers {
		p.Bytes.Total += l.Size
		p.Bytes.Fetched += l.Fetched
	}
	return p
}

// midway has a layer in every state.
func midway() cri.Progress {
	p := pulling(
		layer(1, cri.LayerDone, 29_500_000, 29_500_000),
		layer(2, cri.LayerUnpacking, 512_000_000, 512_000_000),
		layer(3, cri.LayerFetched, 1_234, 1_234),
		layer(4, cri.LayerFetching, 800_000_000, 1_230_000_000),
		layer(5, cri.LayerWaiting, 0, 32),
	)
	eta := 21.4
	p.Rate, p.ETASeconds = 20_100_000, &eta
	return p
}
