package config_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prewarm-dev/prewarm/agent/config"
)

// volume is a folder that changes as the kubelet's volumes do (kubelet/pkg/volume/util/atomic_writer.go): files are links
// through ..data, which is replaced in one step, and then the folder that it led to is removed.
type volume struct {
	dir   string
	count int
}

func (v *volume) path() string { return filepath.Join(v.dir, "config.yaml") }

func (v *volume) write(t *testing.T, text string) {
	t.Helper()
	v.count++
	old, _ := os.Readlink(filepath.Join(v.dir, "..data"))
	now := fmt.Sprintf("..2026_08_22_%d", v.count)
	temporary := filepath.Join(v.dir, "..data_tmp")
	must(t, os.Mkdir(filepath.Join(v.dir, now), 0o700))
	must(t, os.WriteFile(filepath.Join(v.dir, now, "config.yaml"), []byte(text), 0o600))
	must(t, os.Symlink(now, temporary))
	must(t, os.Rename(temporary, filepath.Join(v.dir, "..data")))
	if old == "" {
		must(t, os.Symlink(filepath.Join("..data", "config.yaml"), v.path()))
		return
	}
	must(t, os.RemoveAll(filepath.Join(v.dir, old)))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file is a configuration with one image of this name.
func file(name string) string {
	return header + "images: [{name: " + name + ", reference: r.io/" + name + "}]\n"
}

const interval = 2 * time.Second

// next waits for an update; in the bubble's time, since looking costs none.
func next(t *testing.T, updates <-chan config.Update) config.Update {
	t.Helper()
	select {
	case u, ok := <-updates:
		if !ok {
			t.Fatal("the channel is closed")
		}
		return u
	case <-time.After(10 * interval):
		t.Fatal("no update")
		return config.Update{}
	}
}

// quiet wants no update for a while.
func quiet(t *testing.T, updates <-chan config.Update) {
	t.Helper()
	select {
	case u := <-updates:
		t.Fatalf("unexpected update %+v", u)
	case <-time.After(10 * interval):
	}
}

// expect wants an update to the file of this name.
func expect(t *testing.T, u config.Update, generation int64, name string) {
	t.Helper()
	if u.Err != nil || u.Generation != generation || len(u.Configuration.Images) != 1 || u.Configuration.Images[0].Name != name {
		t.Fatalf("got %+v, want generation %d with image %s", u, generation, name)
	}
}

// watching runs a test in a bubble of its own time, with a volume and a watch of it that ends with the test.
func watching(t *testing.T, first string, test func(t *testing.T, v *volume, updates <-chan config.Update)) {
	t.Helper()
	v := &volume{dir: t.TempDir()}
	if first != "" {
		v.write(t, first)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		updates := config.Watch(ctx, v.path(), interval)
		test(t, v, updates)
		cancel()
		for range updates { // ends once the channel is closed; a goroutine left over fails the bubble
		}
	})
}

func TestWatchReportsTheFileAtOnceAndThenChangesOnly(t *testing.T) {
	t.Parallel()
	watching(t, file("one"), func(t *testing.T, v *volume, updates <-chan config.Update) {
		start := time.Now()
		expect(t, next(t, updates), 1, "one")
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the first update took %v", waited)
		}
		quiet(t, updates)
		v.write(t, file("one")) // the kubelet writes again what has not changed
		quiet(t, updates)
		changed := time.Now()
		v.write(t, file("two"))
		expect(t, next(t, updates), 2, "two")
		if waited := time.Since(changed); waited > 2*interval {
			t.Errorf("the change took %v", waited)
		}
		quiet(t, updates)
	})
}

func TestWatchReportsABadFileAndItsRepair(t *testing.T) {
	t.Parallel()
	watching(t, file("one"), func(t *testing.T, v *volume, updates <-chan config.Update) {
		expect(t, next(t, updates), 1, "one")
		v.write(t, file("UPPER"))
		u := next(t, updates)
		errs, ok := errors.AsType[config.Errors](u.Err)
		if !ok || u.Configuration != nil || u.Generation != 2 || errs[0].File != v.path() || errs[0].Line != 3 {
			t.Fatalf("got %+v", u)
		}
		quiet(t, updates) // it is said once, not at each look
		v.write(t, file("one"))
		expect(t, next(t, updates), 3, "one")
	})
}

func TestWatchReportsAFileThatVanishesAndComesBack(t *testing.T) {
	t.Parallel()
	watching(t, file("one"), func(t *testing.T, v *volume, updates <-chan config.Update) {
		expect(t, next(t, updates), 1, "one")
		must(t, os.Rename(filepath.Join(v.dir, "..data"), filepath.Join(v.dir, "away")))
		u := next(t, updates)
		if !errors.Is(u.Err, fs.ErrNotExist) || u.Configuration != nil || u.Generation != 2 {
			t.Fatalf("got %+v", u)
		}
		quiet(t, updates)
		must(t, os.Rename(filepath.Join(v.dir, "away"), filepath.Join(v.dir, "..data")))
		expect(t, next(t, updates), 3, "one")
	})
}

func TestWatchStartsWithoutAFile(t *testing.T) {
	t.Parallel()
	watching(t, "", func(t *testing.T, v *volume, updates <-chan config.Update) {
		if u := next(t, updates); !errors.Is(u.Err, fs.ErrNotExist) || u.Generation != 1 {
			t.Fatalf("got %+v", u)
		}
		v.write(t, file("one"))
		expect(t, next(t, updates), 2, "one")
	})
}

// TestWatchTakesNoFileThatIsBeingWritten changes the file between every two looks, then lets it be.
func TestWatchTakesNoFileThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	watching(t, file("one"), func(t *testing.T, v *volume, updates <-chan config.Update) {
		expect(t, next(t, updates), 1, "one")
		<-time.After(interval / 2) // so that no look and no write happen at the same time
		text := file("two") + "# the end\n"
		for n := 20; n < len(text); n += 20 {
			v.write(t, text[:n])
			select {
			case u := <-updates:
				t.Fatalf("with %d bytes written: %+v", n, u)
			case <-time.After(interval):
			}
		}
		v.write(t, text)
		expect(t, next(t, updates), 2, "two")
	})
}

func TestWatchGivesALateConsumerTheNewestOnly(t *testing.T) {
	t.Parallel()
	watching(t, file("one"), func(t *testing.T, v *volume, updates <-chan config.Update) {
		for _, name := range []string{"two", "three"} {
			<-time.After(5 * interval)
			v.write(t, file(name))
		}
		<-time.After(5 * interval)
		expect(t, next(t, updates), 3, "three")
		quiet(t, updates)
	})
}

func TestWatchHasADefaultInterval(t *testing.T) {
	t.Parallel()
	v := &volume{dir: t.TempDir()}
	v.write(t, file("one"))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		updates := config.Watch(ctx, v.path(), 0)
		expect(t, next(t, updates), 1, "one")
		start := time.Now()
		v.write(t, file("two"))
		expect(t, next(t, updates), 2, "two")
		if waited := time.Since(start); waited != 2*config.DefaultWatchInterval {
			t.Errorf("took %v, want two looks of %v", waited, config.DefaultWatchInterval)
		}
	})
}
