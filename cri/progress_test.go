package cri_test

import (
	"slices"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
)

func TestEveryPhaseCanBeReachedAndLeft(t *testing.T) {
	t.Parallel()
	reached := map[cri.Phase]bool{}
	for _, from := range append(cri.Phases(), "") {
		left := false
		for _, to := range cri.Phases() {
			if from != to && cri.CanMove(from, to) {
				reached[to], left = true, true
			}
		}
		if !left {
			t.Errorf("phase %q cannot be left", from)
		}
	}
	for _, p := range cri.Phases() {
		if !reached[p] {
			t.Errorf("phase %q cannot be reached", p)
		}
		if !cri.CanMove(p, p) {
			t.Errorf("phase %q may not stay", p)
		}
	}
}

func TestReadyIsEnteredAndLeftByOneDoor(t *testing.T) {
	t.Parallel()
	for _, p := range cri.Phases() {
		if p != cri.PhaseReady && cri.CanMove(p, cri.PhaseReady) != (p == cri.PhaseVerifying) {
			t.Errorf("%s to ready: %v", p, cri.CanMove(p, cri.PhaseReady))
		}
		wantOut := slices.Contains([]cri.Phase{cri.PhaseReady, cri.PhaseLost, cri.PhaseResolving}, p)
		if cri.CanMove(cri.PhaseReady, p) != wantOut {
			t.Errorf("ready to %s: %v", p, !wantOut)
		}
	}
	if cri.CanMove(cri.PhaseReady, "no such phase") {
		t.Error("an unknown phase is allowed")
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		b        cri.Bytes
		missing  int64
		fraction float64
	}{
		{cri.Bytes{}, 0, 1}, // an image without layers is all here
		{cri.Bytes{Total: 100}, 100, 0},
		{cri.Bytes{Total: 100, Present: 25, Fetched: 25}, 50, 0.5},
		{cri.Bytes{Total: 100, Present: 50, Fetched: 50}, 0, 1},
	} {
		if tc.b.Missing() != tc.missing || tc.b.Fraction() != tc.fraction {
			t.Errorf("%+v: missing %d, fraction %v", tc.b, tc.b.Missing(), tc.b.Fraction())
		}
	}
}

func TestLayerStatesAreOrdered(t *testing.T) {
	t.Parallel()
	order := []cri.LayerState{"", cri.LayerWaiting, cri.LayerFetching, cri.LayerFetched, cri.LayerUnpacking, cri.LayerDone}
	for i, a := range order {
		for j, b := range order {
			if a.Before(b) != (i < j) {
				t.Errorf("%q before %q: %v", a, b, a.Before(b))
			}
		}
	}
}
