package agent

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// The reasons of events about images, beside those of package cri, which events about failures have.
const (
	EventPulling             = "Pulling"
	EventPulled              = "Pulled"
	EventLost                = "ImageLost"
	EventRefreshFailed       = "RefreshFailed"
	EventConfigurationFailed = "ConfigurationRefused"
)

// NodeEvents tells what people may want to know of, until ctx ends. It is concluded from the states, so that events and states
// agree; of changes that follow each other within milliseconds only the last may be told.
func NodeEvents(ctx context.Context, store *status.Store) iter.Seq[node.Event] {
	return func(yield func(node.Event) bool) {
		before := store.Get()
		for now := range store.Watch(ctx) {
			for _, e := range eventsBetween(before, now) {
				if !yield(e) {
					return
				}
			}
			before = now
		}
	}
}

// eventsBetween gives what has happened between two states.
func eventsBetween(before, now status.Snapshot) []node.Event {
	var out []node.Event
	if e := now.Configuration.Error; e != "" && e != before.Configuration.Error {
		out = append(out, node.Event{Warning: true, Reason: EventConfigurationFailed, Action: "Load", Note: "the last good configuration stays in force: " + e})
	}
	for _, is := range now.Images {
		was, ok := before.Image(is.Image)
		if !ok || was.Reference != is.Reference {
			was = status.ImageStatus{}
		}
		out = append(out, imageEvents(was, is)...)
	}
	return out
}

func imageEvents(was, is status.ImageStatus) []node.Event {
	event := func(warning bool, reason, action, note string) node.Event {
		return node.Event{Warning: warning, Reason: reason, Action: action, Image: is.Image, Note: is.Reference + ": " + note}
	}
	var out []node.Event
	if was.Phase == cri.PhaseReady && (is.Phase != cri.PhaseReady && is.Known || is.Phase == cri.PhaseReady && lostBetween(was, is)) {
		note := "it is not on this node any more"
		if is.Message != "" {
			note = is.Message
		}
		out = append(out, event(true, EventLost, "Verify", note))
	}
	if pulling(is.Phase) && !is.StartedAt.Equal(was.StartedAt) {
		out = append(out, event(false, EventPulling, "Pull", fmt.Sprintf("%d bytes, %d of them are here", is.Bytes.Total, is.Bytes.Present)))
	}
	if is.Phase == cri.PhaseReady && was.Phase != cri.PhaseReady && !is.StartedAt.IsZero() {
		out = append(out, event(false, EventPulled, "Pull", fmt.Sprintf("%d bytes fetched in %v, digest %s",
			is.Bytes.Fetched, is.ReadyAt.Sub(is.StartedAt).Round(time.Millisecond), is.Digest)))
	}
	if failing(is) && (!failing(was) || was.Reason != is.Reason) {
		out = append(out, event(true, string(is.Reason), "Pull", is.Message))
	}
	if r := is.Refresh; r.Reason != "" && !r.CheckedAt.Equal(was.Refresh.CheckedAt) {
		out = append(out, event(true, EventRefreshFailed, "Refresh", "the image that is ready stays so: "+r.Message))
	}
	return out
}

// pulling is true of the phases of a pull that runs.
func pulling(p cri.Phase) bool { return p == cri.PhasePulling || p == cri.PhaseUnpacking }

// lostBetween reports whether an image that is ready was lost since it was ready before: it has been pulled or found again, as
// the same image. A refresh to another one is no loss.
func lostBetween(was, is status.ImageStatus) bool {
	return !is.ReadyAt.Equal(was.ReadyAt) && is.Digest == was.Digest && is.Verified != "" && was.Verified != ""
}
