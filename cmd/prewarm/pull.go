package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prewarm-dev/prewarm/cmd/prewarm/internal/view"
	"github.com/prewarm-dev/prewarm/cri"
)

// lookInterval is the time between two looks at a pull: a person watches.
const lookInterval = 250 * time.Millisecond

// display shows pulls, one image after another.
type display interface {
	// Show takes the progress of the image that is being pulled.
	Show(cri.Progress)
	// End takes the result of an image.
	End(view.Result)
	// Close ends it and gives the first error in writing.
	Close() error
}

func (a *app) pull(ctx context.Context, s *shared) *cobra.Command {
	var f credentialFlags
	cmd := &cobra.Command{
		Use:   "pull REFERENCE...",
		Short: "Pull images and prove that they are there",
		Long: `Pull images onto this node, one after another: fetch and unpack what is missing, then prove that every layer is
unpacked. An image that is there already costs no pull.

On a terminal every layer has a bar. Otherwise there is a line per event, whose first word is resolving, verifying,
pulling, layer, total, unpacking, ready, failed or skipped. With -o json every change is one JSON object on a line of its
own: image, reference, digest, phase, reason, message, progress (layers or unavailable), bytes {total, present, fetched},
rate (bytes/s), etaSeconds, layers [{digest, chainID, size, fetched, state, since}], verified (how it was proven),
startedAt, readyAt. Logs and errors go to stderr.

One bad reference does not stop the others; a table at the end says what became of each.

` + exitCodes,
		Example: `  prewarm pull docker.io/library/debian:12
  prewarm pull registry.example/app:1.0 registry.example/app@sha256:<64 digits>
  prewarm pull -o json docker.io/library/debian:12 | jq -c '[.phase, .bytes.fetched, .bytes.total]'`,
		Args:              references,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: running(ctx, func(ctx context.Context, args []string) error {
			return a.runPull(ctx, s, &f, args)
		}),
	}
	f.register(cmd)
	return cmd
}

func (a *app) runPull(ctx context.Context, s *shared, f *credentialFlags, args []string) error {
	d, logs, err := a.display(s, len(args))
	if err != nil {
		return err
	}
	results, err := a.pullAll(ctx, s, f, s.logger(logs, slog.LevelWarn), args, d)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	if s.output.value == text && len(results) > 1 {
		if _, err := fmt.Fprintln(a.stdout); err != nil {
			return err
		}
		if err := view.Results(a.stdout, results, a.width()); err != nil {
			return err
		}
	}
	failed := failures(results)
	if ctx.Err() != nil && len(failed) > 0 {
		return &exitError{code: exitInterrupted, err: errors.New("interrupted: what was fetched is kept, and the next pull goes on from there")}
	}
	return verdict(failed, len(results), s.output.value == text)
}

// display chooses how pulls are shown, and where a log can be written meanwhile.
func (a *app) display(s *shared, images int) (display, io.Writer, error) {
	if s.output.value == jsonl {
		return view.NewJSON(a.stdout), a.stderr, nil
	}
	fd, ok := a.terminal()
	if !ok {
		return view.NewLines(a.stdout), a.stderr, nil
	}
	bars, err := view.NewBars(a.stdout, func() (int, int, error) { return term.GetSize(fd) }, a.color(s), images)
	if err != nil {
		return nil, nil, err
	}
	if !isTerminal(a.stderr) {
		return bars, a.stderr, nil
	}
	return bars, bars, nil
}

// pullAll pulls one reference after another.
func (a *app) pullAll(
	ctx context.Context, s *shared, f *credentialFlags, log *slog.Logger, args []string, d display,
) (results []view.Result, err error) {
	keychain, err := f.keychain(a.getenv, log)
	if err != nil {
		return nil, err
	}
	rt, err := a.open(ctx, s, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	p := puller{runtime: rt, keychain: keychain, display: d, engine: cri.Engine(s.engine.value)}
	for _, arg := range args {
		results = append(results, p.pull(ctx, arg))
	}
	return results, nil
}

// failures picks what went wrong.
func failures(results []view.Result) []view.Failure {
	var failed []view.Failure
	for _, r := range results {
		if r.Err != nil {
			failed = append(failed, view.NewFailure(r.Progress.Reference, r.Err))
		}
	}
	return failed
}

// verdict makes one error of what failed of some references. Where there are several, a table has told the reasons.
func verdict(failed []view.Failure, of int, tabled bool) error {
	var errs []error
	var names []string
	for _, f := range failed {
		errs = append(errs, f.Err)
		names = append(names, f.Reference)
	}
	if tabled && of > 1 && len(failed) > 0 {
		return fmt.Errorf("%d of %d images failed: %s", len(failed), of, strings.Join(names, ", "))
	}
	return errors.Join(errs...)
}
