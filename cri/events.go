package cri

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	apievents "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/pkg/protobuf/proto"
	"github.com/opencontainers/go-digest"
)

// Event says that something happened to an image or a snapshot in the runtime, whoever did it. The empty event says that
// the stream stands: what is verified after it cannot be missed.
type Event struct {
	// Reference is the name of the image record; empty for a snapshot.
	Reference string
	// ChainID is the name of the snapshot; empty for an image record.
	ChainID digest.Digest
}

const (
	// topicStanding is that of an event of our own, by which we see that the stream stands. It is outside the topics
	// that CRI listens to.
	topicStanding = "/prewarm/standing"
	// topicSnapshotRemove is that of containerd for the end of a snapshot.
	topicSnapshotRemove = "/snapshot/remove"
	// standingInterval is the time between two of them until one comes back.
	standingInterval = 50 * time.Millisecond
)

// Events yields what happens to images and snapshots in the runtime until ctx ends or the stream breaks, which the error
// tells. A runtime without such a stream gives errors.ErrUnsupported at once.
func (r *Runtime) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if r.native == nil {
			yield(Event{}, fmt.Errorf("%s has no stream of image events: %w", r.info.Name, errors.ErrUnsupported))
			return
		}
		ctx, cancel := context.WithCancel(inNamespace(ctx))
		defer cancel()
		stream, errs := r.native.EventService().Subscribe(ctx,
			`topic~="^/images/"`, fmt.Sprintf("topic==%q", topicSnapshotRemove), fmt.Sprintf("topic==%q", topicStanding))
		tick := time.NewTicker(standingInterval)
		defer tick.Stop()
		announce, standing := tick.C, false
		for {
			select {
			case <-announce:
				if err := r.native.EventService().Publish(ctx, topicStanding, &apievents.ImageUpdate{Name: "prewarm"}); err != nil {
					yield(Event{}, r.runtimeError("events", err))
					return
				}
			case err := <-errs:
				if err == nil {
					err = errors.New("the runtime closed the stream")
				}
				yield(Event{}, r.runtimeError("events", err))
				return
			case envelope := <-stream:
				e, ok := r.event(envelope)
				if e == (Event{}) && ok {
					ok, standing, announce = !standing, true, nil
				}
				if ok && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// event translates an event of containerd; false for those that are none of ours.
func (r *Runtime) event(envelope *events.Envelope) (Event, bool) {
	if envelope == nil || envelope.Namespace != namespace {
		return Event{}, false
	}
	if envelope.Topic == topicStanding {
		return Event{}, true
	}
	if envelope.Topic == topicSnapshotRemove {
		var e apievents.SnapshotRemove
		err := proto.Unmarshal(envelope.Event.GetValue(), &e)
		return Event{ChainID: digest.Digest(e.GetKey())}, err == nil && e.GetSnapshotter() == r.info.Snapshotter
	}
	// The events of images are of three types, each with the name as its first field.
	var e apievents.ImageDelete
	err := proto.Unmarshal(envelope.Event.GetValue(), &e)
	return Event{Reference: e.GetName()}, err == nil
}
