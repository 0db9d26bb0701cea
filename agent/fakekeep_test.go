package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
)

// kept is what a fakeRuntime keeps for us, and where.
type kept struct {
	// pins are the owners of image records, by name.
	pins   map[string]string
	leases []string
	// sweepTime is how long DropLeases takes before it does anything.
	sweepTime time.Duration
	// disk is the file system of images; nil: it cannot be seen.
	disk *cri.Disk
}

func (f *fakeRuntime) Plan(_ context.Context, images ...cri.Image) (cri.Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	plan := cri.Plan{Disk: f.disk}
	for _, i := range images {
		if err := f.called("Plan", i.Reference); err != nil {
			return plan, err
		}
		if !f.unpacked[i.Config] {
			plan.Fetch += i.Size()
			plan.Unpack += 2 * i.Size()
		}
	}
	return plan, nil
}

func (f *fakeRuntime) Pin(_ context.Context, img cri.Image, owner string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.called("Pin", img.Reference); err != nil {
		return false, err
	}
	if f.pins == nil {
		f.pins = map[string]string{}
	}
	name := img.Config.String()
	wrote := f.pins[name] != owner
	f.pins[name] = owner
	return wrote, nil
}

func (f *fakeRuntime) Pinned(_ context.Context, img cri.Image) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pins[img.Config.String()] != "", f.called("Pinned", img.Reference)
}

func (f *fakeRuntime) Pins(context.Context) ([]cri.Pin, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pins []cri.Pin
	for name, owner := range f.pins {
		pins = append(pins, cri.Pin{Name: name, Owner: owner})
	}
	return pins, f.called("Pins", cri.Reference{})
}

func (f *fakeRuntime) Unpin(_ context.Context, pins ...cri.Pin) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pins {
		if f.pins[p.Name] == p.Owner {
			delete(f.pins, p.Name)
		}
	}
	return f.called("Unpin", cri.Reference{})
}

func (f *fakeRuntime) DropLeases(ctx context.Context, keep func(string) bool) ([]string, error) {
	f.mu.Lock()
	d := f.sweepTime
	f.mu.Unlock()
	wait(ctx, d)
	f.mu.Lock()
	defer f.mu.Unlock()
	var dropped []string
	f.leases = slices.DeleteFunc(f.leases, func(l string) bool {
		if keep(l) {
			return false
		}
		dropped = append(dropped, l)
		return true
	})
	return dropped, f.called("DropLeases", cri.Reference{})
}

func (f *fakeRuntime) setPullTime(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pullTime = d
}

// total counts all calls.
func (f *fakeRuntime) total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// owners are the pins now: the owner of each image ID.
func (f *fakeRuntime) owners() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.pins)
}
