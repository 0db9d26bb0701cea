package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// What is told is what happened between two states, and nothing where nothing did.
func TestEventsBetween(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	image := func(phase cri.Phase, change func(*status.ImageStatus)) status.ImageStatus {
		i := status.ImageStatus{Progress: cri.Progress{Image: "a", Reference: "reg.example/a:1", Phase: phase}, Known: true}
		if phase == cri.PhaseReady {
			i.Verified, i.ReadyAt, i.Digest = cri.VerifiedSnapshots, at(60), "sha256:1"
		}
		if change != nil {
			change(&i)
		}
		return i
	}
	pull := func(i *status.ImageStatus) {
		i.StartedAt, i.Bytes = at(30), cri.Bytes{Total: 100, Present: 40, Fetched: 60}
	}
	failed := func(i *status.ImageStatus) { i.Reason, i.Message = cri.ReasonUnauthorized, "401" }
	cases := map[string]struct {
		was, is status.ImageStatus
		want    []string // a ! before warnings
	}{
		"nothing":                   {image(cri.PhaseReady, nil), image(cri.PhaseReady, nil), nil},
		"it was there":              {image(cri.PhaseResolving, nil), image(cri.PhaseReady, nil), nil},
		"a pull begins":             {image(cri.PhaseWaiting, nil), image(cri.PhasePulling, pull), []string{"Pulling reg.example/a:1: 100 bytes, 40 of them are here"}},
		"it goes on":                {image(cri.PhasePulling, pull), image(cri.PhaseUnpacking, pull), nil},
		"it has ended":              {image(cri.PhaseUnpacking, pull), image(cri.PhaseReady, pull), []string{"Pulled reg.example/a:1: 60 bytes fetched in 30s, digest sha256:1"}},
		"it failed":                 {image(cri.PhasePulling, pull), image(cri.PhaseFailed, failed), []string{"!Unauthorized reg.example/a:1: 401"}},
		"it failed in the same way": {image(cri.PhaseFailed, failed), image(cri.PhaseFailed, failed), nil},
		"it waits for its turn":     {image(cri.PhaseResolving, nil), image(cri.PhaseWaiting, func(i *status.ImageStatus) { i.Reason = cri.ReasonQueued }), nil},
		"it waits for room": {image(cri.PhaseWaiting, nil), image(cri.PhaseWaiting, func(i *status.ImageStatus) {
			i.Reason, i.Message = cri.ReasonDiskTooSmall, "needs 3 GB"
		}), []string{"!DiskTooSmall reg.example/a:1: needs 3 GB"}},
		"lost": {image(cri.PhaseReady, nil), image(cri.PhaseLost, func(i *status.ImageStatus) { i.Message = "not present" }), []string{"!ImageLost reg.example/a:1: not present"}},
		"lost and found between two looks": {
			image(cri.PhaseReady, nil), image(cri.PhaseReady, func(i *status.ImageStatus) { i.ReadyAt = at(61) }),
			[]string{"!ImageLost reg.example/a:1: it is not on this node any more"},
		},
		"moved by a refresh":    {image(cri.PhaseReady, nil), image(cri.PhaseReady, func(i *status.ImageStatus) { i.ReadyAt, i.Digest = at(61), "sha256:2" }), nil},
		"not known for a while": {image(cri.PhaseReady, nil), image(cri.PhaseResolving, func(i *status.ImageStatus) { i.Known = false }), nil},
		"another reference":     {image(cri.PhaseReady, func(i *status.ImageStatus) { i.Reference = "reg.example/a:0" }), image(cri.PhaseResolving, nil), nil},
		"a refresh that failed": {image(cri.PhaseReady, nil), image(cri.PhaseReady, func(i *status.ImageStatus) {
			i.Refresh = status.Refresh{CheckedAt: at(90), Reason: cri.ReasonImageNotFound, Message: "404"}
		}), []string{"!RefreshFailed reg.example/a:1: the image that is ready stays so: 404"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, e := range eventsBetween(status.Snapshot{Images: []status.ImageStatus{c.was}}, status.Snapshot{Images: []status.ImageStatus{c.is}}) {
				mark := ""
				if e.Warning {
					mark = "!"
				}
				if e.Image != "a" || e.Action == "" {
					t.Errorf("%+v", e)
				}
				got = append(got, mark+e.Reason+" "+e.Note)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestARefusedConfigurationIsAnEvent(t *testing.T) {
	t.Parallel()
	bad := status.Snapshot{Configuration: status.Configuration{Error: "line 3"}}
	if got := eventsBetween(status.Snapshot{}, bad); len(got) != 1 || got[0].Reason != EventConfigurationFailed || !got[0].Warning || !strings.Contains(got[0].Note, "line 3") {
		t.Errorf("%+v", got)
	}
	if got := eventsBetween(bad, bad); len(got) != 0 {
		t.Errorf("again: %+v", got)
	}
}
