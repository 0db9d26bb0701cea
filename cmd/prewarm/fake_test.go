package main

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/cri"
)

// fakeRuntime is a runtime whose registry has some images; a pull of one fetches and then unpacks layer by layer.
type fakeRuntime struct {
	images map[string]cri.Image
	// present are the references that are proven to be there.
	present map[string]bool
	// resolve, verify and pull are errors by reference; verify holds until the image has been pulled.
	resolve, verify, pull map[string]error
	// pulling is called in the middle of every pull; may be nil.
	pulling func()
	pulls   []cri.PullOptions
	closed  bool
}

var _ containerRuntime = (*fakeRuntime)(nil)

// newFake has images of two layers of these names in its registry.
func newFake(t *testing.T, names ...string) *fakeRuntime {
	t.Helper()
	f := &fakeRuntime{
		images: map[string]cri.Image{}, present: map[string]bool{},
		resolve: map[string]error{}, verify: map[string]error{}, pull: map[string]error{},
	}
	for _, name := range names {
		ref, err := cri.ParseReference(name)
		if err != nil {
			t.Fatal(err)
		}
		img := cri.Image{Reference: ref, Digest: digest.FromString(name), Config: digest.FromString("config of " + name), Platform: "linux/amd64"}
		for _, l := range []string{"base", name} {
			img.Layers = append(img.Layers, cri.Layer{Digest: digest.FromString(l), Size: 1000, ChainID: digest.FromString("chain of " + l)})
		}
		f.images[ref.String()] = img
	}
	return f
}

func failure(reason cri.Reason, noun, cause, remedy string) error {
	return &cri.Error{Reason: reason, Noun: noun, Err: errors.New(cause), Remedy: remedy}
}

func (f *fakeRuntime) Info() cri.Info { return cri.Info{Name: "fake", Detail: cri.DetailLayers} }

func (f *fakeRuntime) Resolve(ctx context.Context, ref cri.Reference, _ *cri.Credential) (cri.Image, error) {
	if ctx.Err() != nil {
		return cri.Image{}, failure(cri.ReasonCanceled, ref.String(), "context canceled", "")
	}
	if err := f.resolve[ref.String()]; err != nil {
		return cri.Image{}, err
	}
	img, ok := f.images[ref.String()]
	if !ok {
		return cri.Image{}, failure(cri.ReasonImageNotFound, ref.String(), "404 Not Found", "check the name and the tag")
	}
	return img, nil
}

func (f *fakeRuntime) Plan(_ context.Context, images ...cri.Image) (cri.Plan, error) {
	p := cri.Plan{Detail: cri.DetailLayers, Images: []cri.ImagePlan{}}
	for _, img := range images {
		if err := f.verify[img.Reference.String()]; err != nil {
			return cri.Plan{}, err
		}
		p.Images = append(p.Images, cri.ImagePlan{Image: img, Fetch: img.Size()})
		p.Fetch += img.Size()
	}
	return p, nil
}

func (f *fakeRuntime) Verify(_ context.Context, img cri.Image) (string, error) {
	name := img.Reference.String()
	if f.present[name] {
		return cri.VerifiedSnapshots, nil
	}
	if err := f.verify[name]; err != nil {
		return "", err
	}
	return "", failure(cri.ReasonNotPresent, name, "the runtime does not have it", "")
}

func (f *fakeRuntime) Pull(ctx context.Context, img cri.Image, o cri.PullOptions) iter.Seq2[cri.Progress, error] {
	f.pulls = append(f.pulls, o)
	name := img.Reference.String()
	return func(yield func(cri.Progress, error) bool) {
		p := cri.Progress{
			Image: o.Name, Reference: name, Digest: img.Digest, Phase: cri.PhasePulling, Detail: cri.DetailLayers,
			Bytes: cri.Bytes{Total: img.Size()}, StartedAt: time.Now(),
		}
		for _, l := range img.Layers {
			p.Layers = append(p.Layers, cri.LayerProgress{Digest: l.Digest, ChainID: l.ChainID, Size: l.Size, State: cri.LayerWaiting})
		}
		set := func(i int, state cri.LayerState, fetched int64) {
			p.Layers = slices.Clone(p.Layers)
			p.Bytes.Fetched += fetched - p.Layers[i].Fetched
			p.Layers[i].State, p.Layers[i].Fetched = state, fetched
			p.Rate = 500
		}
		for i := range p.Layers {
			set(i, cri.LayerFetching, 500)
			if !yield(p, nil) {
				return
			}
		}
		if f.pulling != nil {
			f.pulling()
		}
		if ctx.Err() != nil {
			yield(p, failure(cri.ReasonCanceled, name, "context canceled", "what was fetched is kept; the next pull goes on from there"))
			return
		}
		if err := f.pull[name]; err != nil {
			yield(p, err)
			return
		}
		p.Phase = cri.PhaseUnpacking
		for i := range p.Layers {
			set(i, cri.LayerDone, p.Layers[i].Size)
		}
		f.present[name] = f.verify[name] == nil
		yield(p, nil)
	}
}

func (f *fakeRuntime) Close() error {
	f.closed = true
	return nil
}

// outcome is what a run of the command line left behind.
type outcome struct {
	code           int
	stdout, stderr string
}

// prewarm runs a command line with a runtime and no environment.
func prewarm(ctx context.Context, f *fakeRuntime, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	a := app{
		stdout: &stdout, stderr: &stderr, version: "v1.2.3",
		getenv:  func(string) string { return "" },
		connect: func(context.Context, cri.Options) (containerRuntime, error) { return f, nil },
	}
	code := a.run(ctx, args)
	return outcome{code: code, stdout: stdout.String(), stderr: stderr.String()}
}
