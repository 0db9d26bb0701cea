package main

import (
	"context"
	"io"
	"log/slog"
	"reflect"
	"time"

	"golang.org/x/term"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cmd/prewarm/internal/view"
	"github.com/prewarm-dev/prewarm/cri"
)

// agentShow shows on stdout what the agent does, beside its log.
type agentShow struct {
	// change takes an image's state before and after a change.
	change func(was, is cri.Progress)
	// failed gives the first error in writing.
	failed func() error
	end    func() error
}

// Close ends it and gives the first error in writing.
func (s *agentShow) Close() error { return s.end() }

// agentDisplay chooses what is shown, and where a log can be written meanwhile: bars on a terminal, JSON lines if asked
// for, else nothing.
func (a *app) agentDisplay(s *shared) (*agentShow, io.Writer, error) {
	if s.output.value == jsonl {
		j := view.NewJSON(a.stdout)
		return &agentShow{change: func(_, is cri.Progress) { j.Show(is) }, failed: j.Err, end: j.Close}, a.stderr, nil
	}
	fd, ok := a.terminal()
	if !ok {
		well := func() error { return nil }
		return &agentShow{change: func(_, _ cri.Progress) {}, failed: well, end: well}, a.stderr, nil
	}
	bars, err := view.NewBars(a.stdout, func() (int, int, error) { return term.GetSize(fd) }, a.color(s), 1)
	if err != nil {
		return nil, nil, err
	}
	show := &agentShow{change: (&barred{bars: bars, pulls: map[string]time.Time{}}).change, failed: func() error { return nil }, end: bars.Close}
	if !isTerminal(a.stderr) {
		return show, a.stderr, nil
	}
	return show, bars, nil
}

// follow shows every change of an image's progress until ctx ends. That it cannot be shown keeps no image from being ready.
func (s *agentShow) follow(ctx context.Context, store *status.Store, log *slog.Logger) error {
	before := map[string]status.ImageStatus{}
	told := false
	for now := range store.Watch(ctx) {
		for _, is := range now.Images {
			if was := before[is.Image]; !reflect.DeepEqual(was.Progress, is.Progress) && is.Phase != "" {
				s.change(was.Progress, is.Progress)
				before[is.Image] = is
			}
		}
		if err := s.failed(); err != nil && !told {
			told = true
			log.ErrorContext(ctx, "what the agent does cannot be shown on stdout any more; the agent goes on", "error", err)
		}
	}
	return nil
}

// barred puts the changes of images on bars: those of the image that is being pulled, and a line once it has ended.
type barred struct {
	bars *view.Bars
	// pulls are the starts of the pulls that have been told, by image.
	pulls map[string]time.Time
}

func (b *barred) change(was, is cri.Progress) {
	r := view.Result{Progress: is}
	switch is.Phase {
	case cri.PhasePulling, cri.PhaseUnpacking:
		b.bars.Show(is)
		return
	case cri.PhaseReady:
		if was.Phase == cri.PhaseReady {
			return
		}
		r.Outcome = view.Present
		if !is.StartedAt.Equal(b.pulls[is.Image]) {
			r.Outcome, r.Took = view.Pulled, is.ReadyAt.Sub(is.StartedAt)
			b.pulls[is.Image] = is.StartedAt
		}
	case cri.PhaseFailed:
		if was.Phase == cri.PhaseFailed {
			return
		}
		r.Outcome = view.Failed
	default:
		return
	}
	b.bars.End(r)
}
