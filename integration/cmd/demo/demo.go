package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prewarm-dev/prewarm/agent"
	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// defaultRate lets one see the bars: a registry on the same machine would be done before one has looked.
const defaultRate = 40 << 20

// options are the command's flags.
type options struct {
	dir  string
	rate int
	size int64
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "", "folder to make the demo's own folder in, which is removed at the end (default: the system's for temporary files)")
	flags.IntVar(&o.rate, "rate", defaultRate, "limit of the registry for each connection, in bytes per second; 0 for none")
	flags.Int64Var(&o.size, "size", images.DemoSize, "bytes of files in both images together")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q: there are only flags, see -help", flags.Arg(0))
	}
	return o, nil
}

// demo is what runs.
type demo struct {
	options

	out   io.Writer
	began time.Time
	// stops are how it ends, last things first.
	stops      []func() error
	registry   *harness.Registry
	containerd *harness.Containerd
	refs       map[string]string // by image
	agent      *agentProcess
}

// run plays the demo on out.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	d := &demo{options: o, out: out, began: time.Now(), refs: map[string]string{}}
	defer func() {
		for _, stop := range slices.Backward(d.stops) {
			err = errors.Join(err, stop())
		}
		if err == nil {
			d.say("Everything is removed. It took %s.", time.Since(d.began).Round(time.Second))
		}
	}()
	for _, step := range []func(context.Context) error{d.stage, d.warm, d.lose, d.restart} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// say writes a line of the story.
func (d *demo) say(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, "\n▸ "+format+"\n", args...)
}

// stage starts the registry with its images, and containerd.
func (d *demo) stage(ctx context.Context) error {
	dir, err := os.MkdirTemp(d.dir, "prewarm-demo-")
	if err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	d.dir = dir
	d.stops = append(d.stops, func() error { return os.RemoveAll(dir) })
	if err := room(dir, 3*d.size); err != nil {
		return err
	}
	d.say("A registry with two images of the shape of SageMaker Distribution, made of this\n  machine's files:")
	registry, demos, err := harness.StartDemoRegistry(ctx, filepath.Join(dir, "registry"), d.size)
	if err != nil {
		return err
	}
	d.registry = registry
	d.stops = append(d.stops, registry.Close)
	for _, i := range demos {
		d.refs[i.Name] = i.Reference
		_, _ = fmt.Fprintf(d.out, "  %-3s  %s  %.0f MB in %d layers\n", i.Name, i.Reference, float64(i.Size())/1e6, len(i.Layers))
	}
	if d.rate > 0 {
		registry.Inject(harness.GetBlob(""), harness.Rate(d.rate))
		_, _ = fmt.Fprintf(d.out, "  Each connection gets %d MB/s, so that there is something to see.\n", d.rate/1e6)
	}
	d.containerd, err = harness.StartContainerd(ctx, filepath.Join(dir, "cd"), harness.ContainerdOptions{})
	if err != nil {
		return err
	}
	d.stops = append(d.stops, d.containerd.Stop)
	d.say("A private containerd, with nothing on it: %s", d.containerd.Endpoint())
	return nil
}

// warm runs the agent until both images are ready.
func (d *demo) warm(ctx context.Context) error {
	d.say("prewarm agent --standalone: it pulls what its configuration names.")
	if err := d.startAgent(ctx); err != nil {
		return err
	}
	s, err := d.agent.wait(ctx, status.Ready)
	if err != nil {
		return err
	}
	if err := drawn(ctx); err != nil {
		return err
	}
	d.say("Both images are present, unpacked and proven. A Node would now have these labels:")
	d.printLabels(s)
	return nil
}

// lose deletes an image behind the agent's back.
func (d *demo) lose(ctx context.Context) error {
	d.say("crictl rmi: somebody deletes the cpu image behind the agent's back.")
	begun := time.Now()
	deleted := make(chan error, 1)
	go func() {
		_, err := d.containerd.Crictl(ctx, "rmi", d.refs["cpu"])
		deleted <- err
	}()
	_, err := d.agent.wait(ctx, status.NotReady)
	lost := time.Since(begun)
	if err = errors.Join(err, <-deleted); err != nil {
		return err
	}
	s, err := d.agent.wait(ctx, status.Ready)
	if err != nil {
		return err
	}
	ready := time.Since(begun)
	if err := drawn(ctx); err != nil {
		return err
	}
	cpu, _ := s.Image("cpu")
	why := "in layers that the gpu image has too"
	if cpu.Bytes.Fetched == 0 {
		why = "the agent was faster than containerd's garbage collection"
	}
	d.say("Not ready any more %d ms after crictl was started, ready again after %.1f s.\n"+
		"  %.0f of %.0f MB were still there: %s.", lost.Milliseconds(), ready.Seconds(),
		float64(cpu.Bytes.Present)/1e6, float64(cpu.Bytes.Total)/1e6, why)
	d.printLabels(s)
	return nil
}

// restart shows that the agent needs no memory of its own.
func (d *demo) restart(ctx context.Context) error {
	d.say("The agent is stopped and started again: it finds everything there.")
	if err := d.agent.stop(); err != nil {
		return err
	}
	d.registry.Forget()
	begun := time.Now()
	if err := d.startAgent(ctx); err != nil {
		return err
	}
	if _, err := d.agent.wait(ctx, status.Ready); err != nil {
		return err
	}
	took := time.Since(begun)
	if err := drawn(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(d.out, "  ready after %d ms and %d requests to the registry\n", took.Milliseconds(), len(d.registry.Requests()))
	return d.agent.stop()
}

// printLabels prints what the Node would say.
func (d *demo) printLabels(s status.Snapshot) {
	labels := agent.NodeState(s).Labels()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		_, _ = fmt.Fprintf(d.out, "  %s: %q\n", key, labels[key])
	}
	if labels[node.LabelReady] == "" {
		_, _ = fmt.Fprintln(d.out, "  (not", node.LabelReady+")")
	}
}

// room wants so many bytes to be free.
func room(dir string, bytes int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("file system of %s: %w", dir, err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < bytes {
		return fmt.Errorf("%s has %d MB free, of which the demo wants %d MB: name another folder with -dir, or make smaller images with -size", dir, free/1e6, bytes/1e6)
	}
	return nil
}

// configuration is what the agent is given.
func (d *demo) configuration() string {
	var b strings.Builder
	b.WriteString("apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\nimages:\n")
	for _, name := range slices.Sorted(maps.Keys(d.refs)) {
		_, _ = fmt.Fprintf(&b, "  - name: %s\n    reference: %s\n", name, d.refs[name])
	}
	return b.String()
}
