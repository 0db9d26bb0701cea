package agent

import (
	"context"
	"errors"
	"reflect"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

// configure takes a configuration in; a bad one is told, and the last good one stays.
func (a *Agent) configure(ctx context.Context, u config.Update) {
	a.Board.SetConfiguration(u)
	a.Recorder.ConfigurationLoaded(u.Err)
	if u.Err != nil {
		a.refuse(ctx, u.Err)
		return
	}
	a.configuration = u.Configuration
	a.reconcile(ctx)
}

// refuse logs what is wrong with a configuration, a record for each fault.
func (a *Agent) refuse(ctx context.Context, err error) {
	faults := []error{err}
	if list, ok := errors.AsType[config.Errors](err); ok {
		faults = list.Unwrap()
	}
	for _, fault := range faults {
		a.Logger.ErrorContext(ctx, "configuration refused, the last good one stays in force", "error", fault)
	}
}

// learn takes in what is known of this node.
func (a *Agent) learn(ctx context.Context, f config.NodeFacts) {
	a.facts = &f
	a.permit.set(f.Hold)
	a.permit.learn(f.Kubelet)
	a.reconcile(ctx)
}

// pass tells images of an event of the runtime. With the empty one its stream begins anew: then what was to be let go of
// while there was none is looked for again.
func (a *Agent) pass(ctx context.Context, e cri.Event) {
	for _, r := range a.lives {
		r.life.poke(e)
	}
	if e == (cri.Event{}) {
		a.letGo(ctx)
	}
}

// letGo lets go of what nobody wants any more, once the lives that hold it have ended. One goes after the other, and a life
// whose image is not wanted by one that is under way begins after it (see start).
func (a *Agent) letGo(ctx context.Context, ended ...<-chan struct{}) {
	if a.configuration == nil || a.facts == nil {
		return
	}
	s := &sweeping{wanted: map[string]bool{"": true}, done: make(chan struct{})}
	for name := range a.lives {
		s.wanted[name] = true
	}
	if a.sweeping != nil {
		ended = append(ended, a.sweeping.done)
	}
	a.sweeping = s
	a.wg.Go(func() {
		defer close(s.done)
		if all(ctx, ended...) {
			a.sweep(ctx, func(image string) bool { return s.wanted[image] })
		}
	})
}

// sweeping is what lets go of all but what was wanted when it was begun.
type sweeping struct {
	wanted map[string]bool
	done   chan struct{}
}

// all waits for all of some channels to be closed, unless ctx ends.
func all(ctx context.Context, closed ...<-chan struct{}) bool {
	for _, c := range closed {
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// reconcile starts and ends lives until they are those that the configuration wants on this node. A life whose entry has
// not changed goes on undisturbed.
func (a *Agent) reconcile(ctx context.Context) {
	if a.configuration == nil || a.facts == nil {
		return
	}
	desired := a.configuration.For(*a.facts)
	a.queue.resize(a.configuration.Pull.MaxParallelImages)
	wanted := map[string]int{}
	for i, entry := range desired {
		wanted[entry.Name] = i
	}
	ending := map[string][]<-chan struct{}{}
	var gone []<-chan struct{}
	for name, r := range a.lives {
		if i, ok := wanted[name]; ok && r.life.sameAs(desired[i], i, a.configuration) {
			continue
		}
		a.Logger.InfoContext(ctx, "image is no longer wanted as it was", "image", name)
		r.stop()
		ending[name] = append(ending[name], r.ended)
		gone = append(gone, r.ended)
		delete(a.lives, name)
	}
	a.Board.SetImages(desired)
	for i, entry := range desired {
		if _, ok := a.lives[entry.Name]; !ok {
			if s := a.sweeping; s != nil && !s.wanted[entry.Name] {
				ending[entry.Name] = append(ending[entry.Name], s.done)
			}
			a.start(ctx, entry, i, ending[entry.Name]...)
		}
	}
	a.letGo(ctx, gone...)
}

// start begins the life of an image, once the one that it replaces, and what would let go of what it holds, have ended.
func (a *Agent) start(ctx context.Context, entry config.Image, position int, after ...<-chan struct{}) {
	ctx, stop := context.WithCancel(ctx)
	l := &life{
		entry: entry, position: position, options: a.configuration.Pull, disk: a.configuration.Disk,
		runtime: a.runtime, board: a.Board, recorder: a.Recorder, queue: a.queue, permit: a.permit, keychain: a.Keychain, node: a.Node,
		log: a.Logger.With("image", entry.Name, "reference", entry.Reference.String()), poked: make(chan struct{}, 1),
		held: map[string]bool{entry.Reference.Canonical(): true}, // all that is known before it is resolved
	}
	ended := make(chan struct{})
	a.lives[entry.Name] = &running{life: l, stop: stop, ended: ended}
	l.enter() // now, so that the order is that of the configuration whatever the registries' speed
	a.wg.Go(func() {
		defer close(ended)
		defer l.leave()
		for _, c := range after { // whatever becomes of ctx: two lives of one image never overlap
			<-c
		}
		l.run(ctx)
	})
}

// sameAs reports whether a life is what the configuration wants of an image.
func (l *life) sameAs(entry config.Image, position int, c *config.Configuration) bool {
	pull := c.Pull
	pull.MaxParallelImages = l.options.MaxParallelImages // is the queue's
	return l.position == position && l.options == pull && l.disk == c.Disk && reflect.DeepEqual(l.entry, entry)
}
