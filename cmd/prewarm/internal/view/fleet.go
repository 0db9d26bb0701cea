package view

import (
	"fmt"
	"io"
	"time"

	"github.com/prewarm-dev/prewarm/agent/fleet"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// Fleet writes a row for each image of each Node, for a terminal of width cells; 0 means that everything fits.
func Fleet(w io.Writer, nodes []fleet.Node, now time.Time, width int) error {
	t := table{head: []string{"NODE", "WARM", "IMAGE", columnDigest, "STATE", "PROGRESS", "SINCE", columnReason, columnMessage}}
	for _, n := range nodes {
		switch {
		case n.Status == nil:
			t.add(n.Name, "unknown", "", "", "", "", age(n.Since, now), "AgentUnavailable", oneLine(n.Error))
		case len(n.Status.Images) == 0:
			t.add(n.Name, warm(n.Status), "", "", "", "", age(n.Since, now), "", oneLine(problem(n.Status)))
		}
		if n.Status == nil {
			continue
		}
		for _, i := range n.Status.Images {
			t.add(n.Name, warm(n.Status), i.Image, short(i.Digest), string(i.Phase), progress(i.Progress), age(since(i.Progress), now), string(i.Reason), oneLine(i.Message))
		}
	}
	if len(t.rows) == 0 {
		_, err := io.WriteString(w, "no agent runs in this cluster\n")
		return err
	}
	return t.write(w, width)
}

// NodeDetail writes what the agent of one Node says, image by image with every layer.
func NodeDetail(w io.Writer, n fleet.Node, c Canvas) error {
	if n.Status == nil {
		_, err := fmt.Fprintf(w, "%s: %s\n", n.Name, n.Error)
		return err
	}
	for _, i := range n.Status.Images {
		if c.Since = since(i.Progress); c.Since.IsZero() {
			c.Since = c.Now
		}
		for _, line := range Frame(i.Progress, c) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// since is when an image became ready, or its pull began.
func since(p cri.Progress) time.Time {
	if p.ReadyAt.IsZero() {
		return p.StartedAt
	}
	return p.ReadyAt
}

func warm(s *status.Snapshot) string {
	if s.Ready {
		return "yes"
	}
	return "no"
}

// problem is what keeps an agent from working.
func problem(s *status.Snapshot) string {
	for _, why := range []string{s.RuntimeError, s.Configuration.Error, s.NodeError} {
		if why != "" {
			return why
		}
	}
	return ""
}

// progress is how far a pull is, while one runs.
func progress(p cri.Progress) string {
	if p.Phase != cri.PhasePulling && p.Phase != cri.PhaseUnpacking || p.Bytes.Total == 0 {
		return ""
	}
	out := fmt.Sprintf("%d%% of %s", percent(p.Bytes.Fraction()), Size(p.Bytes.Total))
	if p.Rate > 0 {
		out += " " + Rate(p.Rate)
	}
	if p.ETASeconds != nil {
		out += " " + Elapsed(seconds(*p.ETASeconds)) + " left"
	}
	return out
}

func age(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return Elapsed(now.Sub(since))
}
