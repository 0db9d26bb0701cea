package agent

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// fakeRuntime is a runtime in memory: what it has, what a registry would give it, and what goes wrong.
type fakeRuntime struct {
	mu       sync.Mutex
	registry map[string]cri.Image
	store    map[string]cri.Image
	unpacked map[digest.Digest]bool
	pullTime time.Duration
	// resolveTime is how long the registry takes to answer.
	resolveTime time.Duration
	errs        map[string][]error // by method; one call each
	calls       []string
	events      chan cri.Event
	broken      chan struct{} // closed: the stream of events ends
	kept
}

func newFakeRuntime(images ...cri.Image) *fakeRuntime {
	f := &fakeRuntime{
		registry: map[string]cri.Image{}, store: map[string]cri.Image{}, unpacked: map[digest.Digest]bool{},
		errs: map[string][]error{}, events: make(chan cri.Event), broken: make(chan struct{}), pullTime: time.Second,
	}
	for _, i := range images {
		f.registry[i.Reference.Canonical()] = i
	}
	return f
}

func testImage(t *testing.T, name string) cri.Image {
	t.Helper()
	ref, err := cri.ParseReference("reg.example/" + name + ":1")
	if err != nil {
		t.Fatal(err)
	}
	return cri.Image{
		Reference: ref, Digest: digest.FromString(name), Config: digest.FromString("config " + name),
		Layers: []cri.Layer{{Digest: digest.FromString("layer " + name), Size: 100, ChainID: digest.FromString("chain " + name)}},
	}
}

// called notes a call and gives the error that is due.
func (f *fakeRuntime) called(method string, ref cri.Reference) error {
	f.calls = append(f.calls, method+" "+ref.Canonical())
	if errs := f.errs[method]; len(errs) > 0 {
		f.errs[method] = errs[1:]
		return errs[0]
	}
	return nil
}

func (f *fakeRuntime) fail(method string, errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs[method] = append(f.errs[method], errs...)
}

func (f *fakeRuntime) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if len(c) > len(method) && c[:len(method)+1] == method+" " {
			n++
		}
	}
	return n
}

func (f *fakeRuntime) Info() cri.Info { return cri.Info{Name: "fake", Detail: cri.DetailLayers} }

func (f *fakeRuntime) Local(_ context.Context, ref cri.Reference) (cri.Image, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.called("Local", ref); err != nil {
		return cri.Image{}, err
	}
	img, ok := f.store[ref.Canonical()]
	if !ok {
		return cri.Image{}, cri.ErrNotPresent
	}
	return img, nil
}

func (f *fakeRuntime) Resolve(ctx context.Context, ref cri.Reference, _ *cri.Credential) (cri.Image, error) {
	wait(ctx, f.resolveTime)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.called("Resolve", ref); err != nil {
		return cri.Image{}, err
	}
	img, ok := f.registry[ref.Canonical()]
	if !ok {
		return cri.Image{}, &cri.Error{Reason: cri.ReasonImageNotFound, Noun: ref.String(), Err: fmt.Errorf("404")}
	}
	return img, nil
}

func (f *fakeRuntime) Pull(ctx context.Context, img cri.Image, o cri.PullOptions) iter.Seq2[cri.Progress, error] {
	return func(yield func(cri.Progress, error) bool) {
		f.mu.Lock()
		err, pullTime := f.called("Pull", img.Reference), f.pullTime
		f.mu.Unlock()
		p := cri.Progress{
			Image: o.Name, Reference: img.Reference.String(), Digest: img.Digest, Phase: cri.PhasePulling,
			Detail: cri.DetailLayers, StartedAt: time.Now(), Bytes: cri.Bytes{Total: img.Size()},
		}
		if !yield(p, nil) {
			return
		}
		wait(ctx, pullTime)
		if ctx.Err() != nil {
			err = &cri.Error{Reason: cri.ReasonCanceled, Noun: img.Reference.String(), Err: ctx.Err()}
		}
		if err == nil {
			p.Bytes.Fetched, p.Phase = p.Bytes.Total, cri.PhaseUnpacking
			f.put(img)
		}
		yield(p, err)
	}
}

// put makes an image present and unpacked.
func (f *fakeRuntime) put(img cri.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store[img.Reference.Canonical()] = img
	f.unpacked[img.Config] = true
}

// remove takes an image away, and tells.
func (f *fakeRuntime) remove(img cri.Image) {
	f.mu.Lock()
	delete(f.store, img.Reference.Canonical())
	f.mu.Unlock()
	f.events <- cri.Event{Reference: img.Reference.Canonical()}
}

func (f *fakeRuntime) Verify(_ context.Context, img cri.Image) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.called("Verify", img.Reference); err != nil {
		return "", err
	}
	have, ok := f.store[img.Reference.Canonical()]
	switch {
	case !ok:
		return "", cri.ErrNotPresent
	case have.Config != img.Config:
		return "", cri.ErrOtherImage
	case !f.unpacked[img.Config]:
		return "", cri.ErrNotUnpacked
	}
	return cri.VerifiedSnapshots, nil
}

func (f *fakeRuntime) Events(ctx context.Context) iter.Seq2[cri.Event, error] {
	return func(yield func(cri.Event, error) bool) {
		f.mu.Lock()
		broken := f.broken
		err := f.called("Events", cri.Reference{})
		f.mu.Unlock()
		if err != nil {
			yield(cri.Event{}, err)
			return
		}
		for next := yield(cri.Event{}, nil); next; {
			select {
			case <-ctx.Done():
				next = false
			case <-broken:
				yield(cri.Event{}, fmt.Errorf("the stream broke"))
				next = false
			case e := <-f.events:
				next = yield(e, nil)
			}
		}
	}
}

// memoryBoard keeps every phase that it was told, and refuses what the table of phases forbids.
type memoryBoard struct {
	t        *testing.T
	mu       sync.Mutex
	state    map[string]status.ImageStatus
	phases   map[string][]cri.Phase
	runtime  []error
	refusals []error
	names    []string
	hang     <-chan struct{} // SetConfiguration waits for it; nil: it does not
}

func newMemoryBoard(t *testing.T) *memoryBoard {
	t.Helper()
	return &memoryBoard{t: t, state: map[string]status.ImageStatus{}, phases: map[string][]cri.Phase{}}
}

func (b *memoryBoard) SetImages(images []config.Image) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names = nil
	for _, i := range images {
		b.names = append(b.names, i.Name)
	}
}

func (b *memoryBoard) Update(name string, change func(*status.ImageStatus)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.state[name]
	from := p.Phase
	change(&p)
	if !cri.CanMove(from, p.Phase) {
		b.t.Errorf("%s: forbidden move from %q to %q", name, from, p.Phase)
		return fmt.Errorf("%s to %s", from, p.Phase)
	}
	b.state[name] = p
	if from != p.Phase {
		b.phases[name] = append(b.phases[name], p.Phase)
	}
	return nil
}

func (b *memoryBoard) SetConfiguration(u config.Update) {
	if b.hang != nil {
		<-b.hang
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if u.Err != nil {
		b.refusals = append(b.refusals, u.Err)
	}
}

func (b *memoryBoard) SetRuntime(_ cri.Info, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runtime = append(b.runtime, err)
}

// lastRuntime is what was told last of the runtime.
func (b *memoryBoard) lastRuntime() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.runtime) == 0 {
		return nil
	}
	return b.runtime[len(b.runtime)-1]
}

func (b *memoryBoard) get(name string) status.ImageStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state[name]
}

func (b *memoryBoard) history(name string) []cri.Phase {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.phases[name])
}

// counter counts what the agent records.
type counter struct {
	mu          sync.Mutex
	pulls       []cri.Reason
	lost        []cri.Reason
	loaded      int
	refused     int
	reconnected int
	restored    int
	refreshes   []cri.Reason
}

func (c *counter) PullEnded(_ cri.Progress, reason cri.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulls = append(c.pulls, reason)
}

func (c *counter) PinRestored(string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restored++
}

func (c *counter) Refreshed(_ string, reason cri.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshes = append(c.refreshes, reason)
}

func (c *counter) ImageLost(_ string, reason cri.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = append(c.lost, reason)
}

func (c *counter) ConfigurationLoaded(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.loaded++
	} else {
		c.refused++
	}
}

func (c *counter) RuntimeReconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reconnected++
}

// bench is an agent on a fake runtime, with the time of a synctest bubble.
type bench struct {
	*fakeRuntime
	*counter
	board   *memoryBoard
	configs chan config.Update
	facts   chan config.NodeFacts
	done    chan error
	stop    context.CancelFunc
	agent   *Agent
}

func (b *bench) connect(context.Context) (Runtime, error) {
	b.fakeRuntime.mu.Lock()
	defer b.fakeRuntime.mu.Unlock()
	if err := b.called("Connect", cri.Reference{}); err != nil {
		return nil, err
	}
	return b.fakeRuntime, nil
}

// startAgent runs an agent whose configuration names the images.
func startAgent(t *testing.T, f *fakeRuntime, images ...cri.Image) *bench {
	t.Helper()
	b := startAgentWithout(t, f)
	b.give(images...)
	return b
}

// startAgentWithout runs an agent that has no configuration yet.
func startAgentWithout(t *testing.T, f *fakeRuntime) *bench {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	b := &bench{
		fakeRuntime: f, counter: &counter{}, board: newMemoryBoard(t),
		configs: make(chan config.Update), facts: make(chan config.NodeFacts), done: make(chan error, 1), stop: stop,
	}
	b.agent = New(Options{
		Connect: b.connect, Keychain: Anonymous{}, Board: b.board, Recorder: b.counter, Logger: slog.New(slog.DiscardHandler),
		Configurations: b.configs, Facts: b.facts,
	})
	go func() { b.done <- b.agent.Run(ctx) }()
	return b
}

// give hands the agent what it needs to begin.
func (b *bench) give(images ...cri.Image) {
	b.facts <- config.NodeFacts{}
	b.configs <- config.Update{Configuration: configOf(images...)}
}

func configOf(images ...cri.Image) *config.Configuration {
	c := config.Default()
	for _, i := range images {
		c.Images = append(c.Images, config.Image{Name: i.Reference.Repository()[len("reg.example/"):], Reference: i.Reference, Required: true})
	}
	return c
}
