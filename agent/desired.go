package agent

import (
	"context"
	"reflect"

	"github.com/prewarm-dev/prewarm/agent/config"
)

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
	ending := map[string]<-chan struct{}{}
	for name, r := range a.lives {
		if i, ok := wanted[name]; ok && r.life.sameAs(desired[i], i, a.configuration.Pull) {
			continue
		}
		a.Logger.InfoContext(ctx, "image is no longer wanted as it was", "image", name)
		r.stop()
		ending[name] = r.ended
		delete(a.lives, name)
	}
	a.Board.SetImages(desired)
	for i, entry := range desired {
		if _, ok := a.lives[entry.Name]; !ok {
			a.start(ctx, entry, i, ending[entry.Name])
		}
	}
}

// start begins the life of an image, once the one that it replaces (nil: none) has ended.
func (a *Agent) start(ctx context.Context, entry config.Image, position int, after <-chan struct{}) {
	ctx, stop := context.WithCancel(ctx)
	l := &life{
		entry: entry, position: position, options: a.configuration.Pull, runtime: a.Runtime, board: a.Board, recorder: a.Recorder, queue: a.queue,
		log: a.Logger.With("image", entry.Name, "reference", entry.Reference.String()), poked: make(chan struct{}, 1),
	}
	ended := make(chan struct{})
	a.lives[entry.Name] = &running{life: l, stop: stop, ended: ended}
	a.wg.Go(func() {
		defer close(ended)
		if after != nil {
			<-after
		}
		l.run(ctx)
	})
}

// sameAs reports whether a life is what the configuration wants of an image.
func (l *life) sameAs(entry config.Image, position int, options config.Pull) bool {
	return l.position == position && l.options.Engine == options.Engine && reflect.DeepEqual(l.entry, entry)
}
