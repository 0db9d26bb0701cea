package cri

import (
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
)

// Phase is where an image stands on this node.
type Phase string

// The phases of an image's life, in the order in which a first pull goes through them.
const (
	PhaseResolving Phase = "resolving" // asking what the reference means
	PhaseWaiting   Phase = "waiting"   // for its turn, for a retry, or for the node (see Reason)
	PhasePulling   Phase = "pulling"   // bytes are missing
	PhaseUnpacking Phase = "unpacking" // all bytes are here, not every layer is unpacked
	PhaseVerifying Phase = "verifying" // the runtime is done; proving it
	PhaseReady     Phase = "ready"     // present, unpacked, digest known
	PhaseFailed    Phase = "failed"    // the last try failed (see Reason); another follows
	PhaseLost      Phase = "lost"      // was ready and is not any more
)

// Phases lists every phase.
func Phases() []Phase {
	return []Phase{
		PhaseResolving, PhaseWaiting, PhasePulling, PhaseUnpacking,
		PhaseVerifying, PhaseReady, PhaseFailed, PhaseLost,
	}
}

// moves is the table of allowed moves between phases. A move to the same phase is always allowed.
//
// Two rules stand behind it: ready is reached only by way of verifying, and is left only by way of lost (the image is
// gone) or resolving (its entry in the configuration changed).
var moves = map[Phase][]Phase{ //nolint:gochecknoglobals // a constant table
	"":             {PhaseResolving, PhaseWaiting},
	PhaseResolving: {PhaseWaiting, PhasePulling, PhaseVerifying, PhaseFailed},
	PhaseWaiting:   {PhaseResolving, PhasePulling, PhaseVerifying, PhaseFailed},
	PhasePulling:   {PhaseUnpacking, PhaseVerifying, PhaseFailed, PhaseWaiting},
	PhaseUnpacking: {PhaseVerifying, PhaseFailed, PhaseWaiting},
	PhaseVerifying: {PhaseReady, PhaseFailed, PhasePulling, PhaseWaiting, PhaseLost},
	PhaseReady:     {PhaseLost, PhaseResolving},
	PhaseFailed:    {PhaseWaiting, PhaseResolving},
	PhaseLost:      {PhaseResolving, PhaseWaiting, PhasePulling, PhaseFailed},
}

// CanMove reports whether an image may go from one phase to another.
func CanMove(from, to Phase) bool {
	return from == to || slices.Contains(moves[from], to)
}

// LayerState is where one layer stands; the states are ordered, and within one pull a layer never goes back.
type LayerState string

// The states of a layer, in order.
const (
	LayerWaiting   LayerState = "waiting"   // nothing of it is being fetched yet
	LayerFetching  LayerState = "fetching"  // bytes arrive
	LayerFetched   LayerState = "fetched"   // all bytes are here; its turn to unpack has not come
	LayerUnpacking LayerState = "unpacking" // being unpacked; the runtime tells no percentage, so neither do we
	LayerDone      LayerState = "done"      // unpacked: its chain ID is committed in the snapshotter
)

// layerStates is the order of the states.
var layerStates = []LayerState{LayerWaiting, LayerFetching, LayerFetched, LayerUnpacking, LayerDone} //nolint:gochecknoglobals // a constant table

// Before reports whether s comes before other. An unknown state comes before all.
func (s LayerState) Before(other LayerState) bool {
	return slices.Index(layerStates, s) < slices.Index(layerStates, other)
}

// Detail tells how much the runtime lets us see of a pull.
type Detail string

// The details of progress.
const (
	DetailLayers      Detail = "layers"      // bytes and states layer by layer, from containerd's native API
	DetailUnavailable Detail = "unavailable" // only that a pull runs: the runtime has no API that tells more
)

// Bytes counts compressed bytes of an image's distinct layers: a layer that occurs twice counts once, and manifests and
// configurations do not count. While a pull runs Present + Fetched never decreases and never passes Total; when it has
// ended well they are equal.
type Bytes struct {
	// Total is the size of all distinct layers, in bytes.
	Total int64 `json:"total"`
	// Present is what this pull did not have to fetch: layers that were unpacked or stored before it began, and the
	// part of a layer that an earlier try had fetched.
	Present int64 `json:"present"`
	// Fetched is what this pull has fetched so far.
	Fetched int64 `json:"fetched"`
}

// Missing is what is still to be fetched, in bytes.
func (b Bytes) Missing() int64 { return max(0, b.Total-b.Present-b.Fetched) }

// Fraction is the part of the bytes that is here, from 0 to 1; an image without layers is all here.
func (b Bytes) Fraction() float64 {
	if b.Total <= 0 {
		return 1
	}
	return min(1, float64(b.Present+b.Fetched)/float64(b.Total))
}

// LayerProgress is the progress of one layer of the manifest, in manifest order. A layer that occurs twice has two
// entries with the same digest and different chain IDs.
type LayerProgress struct {
	Digest digest.Digest `json:"digest"`
	// ChainID names the snapshot of this layer on top of those below it (OCI image-spec, config.md "Layer ChainID").
	ChainID digest.Digest `json:"chainID"`
	// Size is the compressed size, in bytes.
	Size int64 `json:"size"`
	// Fetched is how much of Size needs no fetching any more, in bytes: it never decreases and never passes Size.
	Fetched int64      `json:"fetched"`
	State   LayerState `json:"state"`
	// Since is when the layer came into State: unpacking has no percentage, so its age is what shows that it is alive.
	Since time.Time `json:"since,omitzero"`
}

// Progress is the state of one image on this node at one moment. It is a value: whoever gets one may keep it.
type Progress struct {
	// Image is the name of the entry in the configuration, or the reference where there is none.
	Image string `json:"image"`
	// Reference is what the user wrote.
	Reference string `json:"reference"`
	// Digest is what the registry (or, for an image that is present, the runtime) says that the reference means: the
	// digest of the index where there is one. Empty until resolved.
	Digest  digest.Digest `json:"digest,omitempty"`
	Phase   Phase         `json:"phase"`
	Reason  Reason        `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
	// Detail tells whether Bytes and Layers mean anything.
	Detail Detail `json:"progress,omitempty"`
	Bytes  Bytes  `json:"bytes"`
	// Rate is the speed of fetching over the last seconds, in bytes per second; 0 when nothing is being fetched.
	Rate float64 `json:"rate"`
	// ETASeconds is how long fetching will take at Rate, in seconds; absent when unknown. Unpacking is not in it.
	ETASeconds *float64        `json:"etaSeconds,omitempty"`
	Layers     []LayerProgress `json:"layers,omitempty"`
	// Verified is the check on which ready rests: "snapshots" (every chain ID is committed) or "runtime" (the runtime
	// says that the image is present, and has no API that tells more).
	Verified string `json:"verified,omitempty"`
	// ByteAt is when the last byte was seen to arrive, while a pull fetches; zero otherwise.
	ByteAt time.Time `json:"byteAt,omitzero"`
	// StartedAt is when the current or last pull began; zero when there was none.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// ReadyAt is when the image became ready; zero while it is not.
	ReadyAt time.Time `json:"readyAt,omitzero"`
}
