package status

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

// The errors of Update, for errors.Is.
var (
	// ErrForbiddenMove means that the table of phases does not have the move (cri.CanMove).
	ErrForbiddenMove = errors.New("forbidden move between phases")
	// ErrUnknownImage means that this node does not need the image (any more).
	ErrUnknownImage = errors.New("no such image on this node")
)

// StoreOptions says what a Store tells of the agent besides its state.
type StoreOptions struct {
	// Node is the name of the Node; empty when Standalone.
	Node       string
	Standalone bool
	// Source is where the configuration is read from.
	Source string
	// Now is the clock: time.Now.
	Now func() time.Time
}

// Store holds the newest Snapshot. Its methods may be called from several goroutines; none of them waits for a reader.
type Store struct {
	clock func() time.Time

	mu sync.Mutex
	// now is replaced and never changed, as are the slices in it.
	now Snapshot
	// changed is closed, and replaced, at every change.
	changed chan struct{}
}

// New makes a Store in which nothing is known yet.
func New(o StoreOptions) *Store {
	return &Store{
		clock:   o.Now,
		changed: make(chan struct{}),
		now: Snapshot{
			Node: o.Node, Standalone: o.Standalone, Configuration: Configuration{Source: o.Source},
			Images: []ImageStatus{}, UpdatedAt: o.Now(),
		},
	}
}

// Get gives the newest state.
func (s *Store) Get() Snapshot {
	now, _ := s.get()
	return now
}

func (s *Store) get() (Snapshot, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.changed
}

// Watch gives the state now, and then the newest state after each change, until ctx ends. Who is slow misses states in
// between, and never the last one.
func (s *Store) Watch(ctx context.Context) iter.Seq[Snapshot] {
	return func(yield func(Snapshot) bool) {
		for ctx.Err() == nil {
			now, changed := s.get()
			if !yield(now) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// SetImages says which images this node needs, in order. The state of those that stay is kept. An entry that is new or now
// has another reference is not ready until it has been looked at, whatever was said of this node before; only of the first
// images, those of an agent that has just started, nothing is known.
func (s *Store) SetImages(images []config.Image) {
	s.set(func(next *Snapshot) {
		next.Configured = true
		next.Images = make([]ImageStatus, len(images))
		for i, entry := range images {
			ref := entry.Reference.String()
			is, ok := s.now.Image(entry.Name)
			if !ok || is.Reference != ref {
				is = ImageStatus{Progress: cri.Progress{Image: entry.Name, Reference: ref}, Known: s.now.Configured}
			}
			is.Required = entry.Required
			next.Images[i] = is
		}
	})
}

// Update changes the state of one image. change gets a copy that it may alter as it likes, but for the image's name and
// reference, and for Required and Known, which are the Store's; it must not call the Store. A move that the table of
// phases forbids is refused, and the state before stays.
func (s *Store) Update(name string, change func(*ImageStatus)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.now.Images, func(i ImageStatus) bool { return i.Image == name })
	if at < 0 {
		return fmt.Errorf("image %s: %w", name, ErrUnknownImage)
	}
	before := s.now.Images[at]
	is := before.clone()
	change(&is)
	is = is.clone() // change may have kept what it put there
	is.Image, is.Reference, is.Required = name, before.Reference, before.Required
	if !cri.CanMove(before.Phase, is.Phase) {
		return fmt.Errorf("image %s: %w: from %q to %q", name, ErrForbiddenMove, before.Phase, is.Phase)
	}
	is.Known = known(before.Known, before.Phase, is.Progress)
	next := s.now
	next.Images = slices.Clone(s.now.Images)
	next.Images[at] = is
	s.publish(next)
	return nil
}

// clone copies what a state refers to, so that whoever has the one cannot change the other.
func (i ImageStatus) clone() ImageStatus {
	i.Progress = clone(i.Progress)
	if i.Refresh.Next != nil {
		i.Refresh.Next = new(clone(*i.Refresh.Next))
	}
	return i
}

func clone(p cri.Progress) cri.Progress {
	p.Layers = slices.Clone(p.Layers)
	if p.ETASeconds != nil {
		p.ETASeconds = new(*p.ETASeconds)
	}
	return p
}

// SetConfiguration tells what became of a configuration: it is in force, or was refused and the one before stays.
func (s *Store) SetConfiguration(u config.Update) {
	s.set(func(next *Snapshot) {
		if u.Err != nil {
			next.Configuration.Error = u.Err.Error()
			return
		}
		next.Configuration.Error = ""
		next.Configuration.Generation, next.Configuration.LoadedAt = u.Generation, s.clock()
		if u.Configuration != nil {
			next.Configuration.FailOpenAfterSeconds = u.Configuration.StartupTaint.FailOpenAfter.Seconds()
		}
	})
}

// SetRuntime says which runtime it is, or why it cannot be reached.
func (s *Store) SetRuntime(info cri.Info, err error) {
	s.set(func(next *Snapshot) { next.Runtime, next.RuntimeError = info, text(err) })
}

// SetNodeError says why the Node cannot be told the state; nil that it has been.
func (s *Store) SetNodeError(err error) {
	s.set(func(next *Snapshot) { next.NodeError = text(err) })
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (s *Store) set(change func(next *Snapshot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.now
	change(&next)
	s.publish(next)
}

// publish makes next the newest state and wakes the readers, if it says anything new.
func (s *Store) publish(next Snapshot) {
	next.Ready = next.Readiness() == Ready
	if reflect.DeepEqual(next, s.now) {
		return
	}
	next.UpdatedAt = s.clock()
	s.now = next
	close(s.changed)
	s.changed = make(chan struct{})
}
