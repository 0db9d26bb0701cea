package critest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
)

// Subject is a runtime to be put to the test, with an image that it can pull and does not have.
type Subject struct {
	Runtime *cri.Runtime
	// Image is resolved and absent.
	Image cri.Image
	// Remove takes the image out of the runtime by other means than ours.
	Remove func(t *testing.T, ref cri.Reference)
	// Hang makes pulls hang at the registry until the test ends.
	Hang func(t *testing.T)
}

// Conformance holds a runtime to what the agent relies on, whatever more it can do.
func Conformance(t *testing.T, s Subject) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	absent := func(t *testing.T) {
		t.Helper()
		if _, err := s.Runtime.Local(ctx, s.Image.Reference); !errors.Is(err, cri.ErrNotPresent) {
			t.Fatalf("Local of an absent image: %v, want ErrNotPresent", err)
		}
		if check, err := s.Runtime.Verify(ctx, s.Image); !errors.Is(err, cri.ErrNotPresent) {
			t.Fatalf("Verify of an absent image: %q, %v, want ErrNotPresent", check, err)
		}
	}
	absent(t)

	last := drain(t, s.Runtime, ctx, s.Image)
	if last.Digest != s.Image.Digest || last.Bytes.Total != s.Image.Size() || last.StartedAt.IsZero() {
		t.Errorf("progress says %s, %d bytes, started %v; the image is %s, %d bytes",
			last.Digest, last.Bytes.Total, last.StartedAt, s.Image.Digest, s.Image.Size())
	}
	check, err := s.Runtime.Verify(ctx, s.Image)
	if want := map[cri.Detail]string{cri.DetailLayers: cri.VerifiedSnapshots, cri.DetailUnavailable: cri.VerifiedRuntime}[s.Runtime.Info().Detail]; err != nil || check != want {
		t.Errorf("Verify after the pull: %q, %v, want %q", check, err, want)
	}
	if local, err := s.Runtime.Local(ctx, s.Image.Reference); err != nil || local.Config != s.Image.Config || local.Digest != s.Image.Digest {
		t.Errorf("Local after the pull: %+v, %v, want config %s, digest %s", local, err, s.Image.Config, s.Image.Digest)
	}
	other := s.Image
	other.Config = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	if _, err := s.Runtime.Verify(ctx, other); !errors.Is(err, cri.ErrOtherImage) {
		t.Errorf("Verify of another image under the same name: %v, want ErrOtherImage", err)
	}

	s.Remove(t, s.Image.Reference)
	absent(t)

	s.Hang(t)
	pctx, pcancel := context.WithCancel(ctx)
	defer pcancel()
	for _, err := range s.Runtime.Pull(pctx, s.Image, cri.PullOptions{Interval: 10 * time.Millisecond}) {
		pcancel()
		if err != nil && cri.ReasonOf(err) != cri.ReasonCanceled {
			t.Errorf("a cancelled pull ended with %v, want reason %s", err, cri.ReasonCanceled)
		}
	}
	absent(t)
}

// drain pulls to the end and gives the last progress.
func drain(t *testing.T, r *cri.Runtime, ctx context.Context, img cri.Image) cri.Progress { //nolint:revive // t first, as in every test helper
	t.Helper()
	var last cri.Progress
	for p, err := range r.Pull(ctx, img, cri.PullOptions{Interval: 20 * time.Millisecond}) {
		if err != nil {
			t.Fatalf("pull: %v", err)
		}
		last = p
	}
	return last
}
