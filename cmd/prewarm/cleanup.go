package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/cri"
)

// cleanupFlags are those of prewarm cleanup alone.
type cleanupFlags struct {
	node           nodeFlags
	images, dryRun bool
	cluster        bool
	placeholders   node.Placeholders
}

func (a *app) cleanup(ctx context.Context, s *shared) *cobra.Command {
	var f cleanupFlags
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Take away what the agent left on this node",
		Long: `Take away what the agent left on this node, so that it is as if there had been none: pins of images, kept partial
downloads, and the labels, the condition and the startup taint of the Node. Images stay, unless --images is given; then those that the agent had pinned are
removed, except those that a container was started from, which stay pinned so that a later clean-up finds them. Stop the
agent first, or it puts everything back.

With --cluster it does so to all Nodes and placeholder pods of the cluster, from anywhere, with a kubeconfig of somebody who may,
and to no container runtime: for that run it on the nodes.

It can be run again and again. With --dry-run it only says what it would do.

` + exitCodes,
		Example: `  prewarm cleanup --dry-run --node-name "$NODE_NAME"
  prewarm cleanup --standalone --images
  prewarm cleanup --cluster --dry-run`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: running(ctx, func(ctx context.Context, _ []string) error {
			return a.runCleanup(ctx, s, &f)
		}),
	}
	f.node.register(cmd)
	registerPlaceholders(cmd, &f.placeholders)
	cmd.Flags().BoolVar(&f.cluster, "cluster", false, "clean all Nodes and placeholder pods of the cluster, and no runtime")
	cmd.Flags().BoolVar(&f.images, "images", false, "remove the images too that the agent had pinned and no container uses")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would be done")
	return cmd
}

// cleaned is what a clean-up did, or would do.
type cleaned struct {
	DryRun bool `json:"dryRun"`
	// Pins are the image records whose pin was taken away, Leases the images whose partial downloads were dropped.
	Pins   []string `json:"pins"`
	Leases []string `json:"leases"`
	// Removed are images, Kept those that a container uses.
	Removed []string `json:"removedImages,omitempty"`
	Kept    []string `json:"keptImages,omitempty"`
	// Objects are those of the API server that had something of ours, and what was taken off them.
	Objects []node.Cleared `json:"objects"`
}

func (a *app) runCleanup(ctx context.Context, s *shared, f *cleanupFlags) (err error) {
	if f.cluster {
		return a.cleanCluster(ctx, s, f)
	}
	if err := f.node.check(a.getenv); err != nil {
		return err
	}
	log := s.logger(a.stderr, slog.LevelWarn)
	rt, err := cri.Connect(ctx, s.options(log))
	if err != nil {
		return unreachable(err)
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	done := cleaned{DryRun: f.dryRun, Pins: []string{}, Leases: []string{}, Objects: []node.Cleared{}}
	// Each part is done whatever became of the others; the label comes first, since pods choose by it.
	err = errors.Join(f.clearNode(ctx, &done, log), f.clearRuntime(ctx, rt, &done))
	return errors.Join(err, a.told(s, done))
}

// told says what was done.
func (a *app) told(s *shared, done cleaned) error {
	if s.output.value == jsonl {
		return json.NewEncoder(a.stdout).Encode(done)
	}
	return done.print(a.stdout)
}

// cleanCluster cleans all Nodes and placeholder pods.
func (a *app) cleanCluster(ctx context.Context, s *shared, f *cleanupFlags) error {
	if f.node.name != "" || f.node.standalone || f.images {
		return &exitError{code: exitUsage, err: errors.New("--cluster is for all nodes and no runtime: leave out --node-name, --standalone and --images")}
	}
	r, err := f.reporter(s.logger(a.stderr, slog.LevelWarn))
	if err != nil {
		return err
	}
	objects, err := r.ClearCluster(ctx, !f.dryRun)
	done := cleaned{DryRun: f.dryRun, Pins: []string{}, Leases: []string{}, Objects: append([]node.Cleared{}, objects...)}
	return errors.Join(err, a.told(s, done))
}

// noObserver counts nothing.
type noObserver struct{}

// APIWrite implements node.Observer.
func (noObserver) APIWrite(_, _ string) {}

// FailedOpen implements node.Observer.
func (noObserver) FailedOpen() {}

// reporter makes what cleans the API server's objects.
func (f *cleanupFlags) reporter(log *slog.Logger) (*node.Reporter, error) {
	kubeconfig, err := restConfig(f.node.kubeconfig)
	if err != nil {
		return nil, err
	}
	return node.NewReporter(node.Options{
		Config: kubeconfig, Node: f.node.name, UserAgent: "prewarm-cleanup", AskKubelet: false, Placeholders: f.placeholders,
		Observer: noObserver{}, Problem: func(error) {}, Logger: log,
	})
}

func (f *cleanupFlags) clearNode(ctx context.Context, done *cleaned, log *slog.Logger) error {
	if f.node.standalone {
		return nil
	}
	r, err := f.reporter(log)
	if err != nil {
		return err
	}
	cleared, err := r.Clear(ctx, !f.dryRun)
	if !cleared.Empty() {
		done.Objects = append(done.Objects, cleared)
	}
	return err
}

func (f *cleanupFlags) clearRuntime(ctx context.Context, rt *cri.Runtime, done *cleaned) error {
	pins, err := rt.Pins(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if f.images {
		kept, err := f.removeImages(ctx, rt, pins, done)
		errs = append(errs, err)
		// The pin is all that says that an image is one of ours: without it the next clean-up would not know.
		pins = slices.DeleteFunc(pins, func(p cri.Pin) bool { return kept[p.Target] })
	}
	for _, p := range pins {
		done.Pins = append(done.Pins, p.Name)
	}
	slices.Sort(done.Pins)
	if !f.dryRun {
		errs = append(errs, rt.Unpin(ctx, pins...))
	}
	leases, err := rt.DropLeases(ctx, func(image string) bool {
		if f.dryRun {
			done.Leases = append(done.Leases, image)
		}
		return f.dryRun
	})
	done.Leases = append(done.Leases, leases...)
	return errors.Join(append(errs, err)...)
}

// removeImages removes the images that are pinned: the pins of image IDs name them. It gives the targets of those that are
// still there.
func (f *cleanupFlags) removeImages(ctx context.Context, rt *cri.Runtime, pins []cri.Pin, done *cleaned) (kept map[digest.Digest]bool, err error) {
	kept = map[digest.Digest]bool{}
	used, err := rt.InUse(ctx)
	if err != nil {
		return kept, err
	}
	var errs []error
	for _, p := range pins {
		switch {
		case !strings.HasPrefix(p.Name, "sha256:"):
			continue
		case used[p.Name]:
			kept[p.Target] = true
			done.Kept = append(done.Kept, p.Name)
			continue
		case f.dryRun:
		default:
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			err = rt.Remove(limited, p.Name)
			cancel()
		}
		if err != nil {
			kept[p.Target] = true
			errs = append(errs, err)
			continue
		}
		done.Removed = append(done.Removed, p.Name)
	}
	slices.Sort(done.Removed)
	slices.Sort(done.Kept)
	return kept, errors.Join(errs...)
}

// print says what was done, a line for each thing.
func (c cleaned) print(w io.Writer) error {
	verb := func(done, would string) string {
		if c.DryRun {
			return "would " + would
		}
		return done
	}
	var lines []string
	add := func(what string, of []string) {
		for _, name := range of {
			lines = append(lines, what+" "+name)
		}
	}
	for _, o := range c.Objects {
		add(verb("removed", "remove")+" from "+o.Object+" label", o.Labels)
		if o.Condition != "" {
			add(verb("removed", "remove")+" from "+o.Object+" condition", []string{o.Condition})
		}
		if o.Taint != "" {
			add(verb("removed", "remove")+" from "+o.Object+" taint", []string{o.Taint})
		}
	}
	add(verb("unpinned", "unpin"), c.Pins)
	add(verb("dropped the partial download of", "drop the partial download of"), c.Leases)
	add(verb("removed image", "remove image"), c.Removed)
	add("stays pinned until it is cleaned up again, since a container uses it: image", c.Kept)
	if len(lines) == 0 {
		lines = []string{"nothing of prewarm is here"}
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
