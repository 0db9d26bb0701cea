package node

import (
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
)

func TestDifference(t *testing.T) {
	t.Parallel()
	const abc = digest.Digest("sha256:abcdefabcdefabcdef")
	images := func(pairs ...any) map[string]Image {
		out := map[string]Image{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i].(string)] = Image{Readiness: pairs[i+1].(Readiness), Digest: abc}
		}
		return out
	}
	cases := map[string]struct {
		state  State
		labels map[string]string
		want   string // as kubectl label takes it
	}{
		"nothing known, nothing there": {},
		"nothing known, all stays": {
			labels: map[string]string{LabelReady: "true", LabelImagePrefix + "cpu": "abcdefabcdef", "other": "x"},
		},
		"which images is known, how they are is not": {
			state:  State{Images: images("cpu", Unknown)},
			labels: map[string]string{LabelReady: "true", LabelImagePrefix + "cpu": "abcdefabcdef"},
		},
		"an image of an earlier configuration": {
			state:  State{Images: images("cpu", Unknown)},
			labels: map[string]string{LabelReady: "true", LabelImagePrefix + "gpu": "abcdefabcdef"},
			want:   "image.prewarm.dev/gpu-",
		},
		"a required image, of which nothing was said or is known": {
			state:  State{Images: map[string]Image{"cpu": {Required: true}, "gpu": {Required: true}, "extra": {}}},
			labels: map[string]string{LabelReady: "true", LabelImagePrefix + "cpu": "abcdefabcdef"},
			want:   "prewarm.dev/image-ready-",
		},
		"required images, of which all was said and nothing is known": {
			state:  State{Images: map[string]Image{"cpu": {Required: true}, "extra": {}}},
			labels: map[string]string{LabelReady: "true", LabelImagePrefix + "cpu": "abcdefabcdef"},
		},
		"ready, nothing there": {
			state: State{Readiness: Ready, Images: images("cpu", Ready, "gpu", Ready)},
			want:  "image.prewarm.dev/cpu=abcdefabcdef image.prewarm.dev/gpu=abcdefabcdef prewarm.dev/image-ready=true",
		},
		"ready, and said": {
			state:  State{Readiness: Ready, Images: images("cpu", Ready)},
			labels: map[string]string{LabelReady: "true", LabelImagePrefix + "cpu": "abcdefabcdef", "other": "x"},
		},
		"ready, and denied by hand": {
			state:  State{Readiness: Ready, Images: images()},
			labels: map[string]string{LabelReady: "false"},
			want:   "prewarm.dev/image-ready=true",
		},
		"not ready, and claimed": {
			state:  State{Readiness: NotReady, Images: images("cpu", NotReady)},
			labels: map[string]string{LabelReady: "true", LabelImagePrefix + "cpu": "abcdefabcdef"},
			want:   "image.prewarm.dev/cpu- prewarm.dev/image-ready-",
		},
		"not ready, and false is not our word": {
			state:  State{Readiness: NotReady, Images: images()},
			labels: map[string]string{LabelReady: "false"},
			want:   "prewarm.dev/image-ready-",
		},
		"one of two ready": {
			state:  State{Readiness: NotReady, Images: images("cpu", Ready, "gpu", NotReady)},
			labels: map[string]string{},
			want:   "image.prewarm.dev/cpu=abcdefabcdef",
		},
		"one is not known": {
			state:  State{Readiness: NotReady, Images: images("cpu", NotReady, "gpu", Unknown)},
			labels: map[string]string{LabelReady: "true", LabelImagePrefix + "cpu": "x", LabelImagePrefix + "gpu": "x"},
			want:   "image.prewarm.dev/cpu- prewarm.dev/image-ready-",
		},
		"the digest is another": {
			state:  State{Readiness: Ready, Images: images("cpu", Ready)},
			labels: map[string]string{LabelReady: "true", LabelImagePrefix + "cpu": "000000000000"},
			want:   "image.prewarm.dev/cpu=abcdefabcdef",
		},
		"no image is needed": {
			state:  State{Readiness: Ready, Images: images()},
			labels: map[string]string{LabelImagePrefix + "cpu": "abcdefabcdef"},
			want:   "image.prewarm.dev/cpu- prewarm.dev/image-ready=true",
		},
		"no digest, no label": {
			state:  State{Readiness: Ready, Images: map[string]Image{"cpu": {Readiness: Ready}}},
			labels: map[string]string{LabelReady: "true", LabelImagePrefix + "cpu": "abcdefabcdef"},
			want:   "image.prewarm.dev/cpu-",
		},
		"names that only look like ours": {
			state:  State{Readiness: NotReady, Images: images()},
			labels: map[string]string{"prewarm.dev/image-ready-x": "1", "prewarm.dev/warm": "1", "ximage.prewarm.dev/cpu": "1", "image.prewarm.dev": "1"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := difference(c.state, c.labels)
			if diff := cmp.Diff(c.want, got.LogValue().String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			after := map[string]string{}
			maps.Copy(after, c.labels)
			for key, value := range got {
				if !ours(key) {
					t.Errorf("touches %s", key)
				}
				if delete(after, key); value != nil {
					after[key] = *value
				}
			}
			if again := difference(c.state, after); len(again) > 0 {
				t.Errorf("is not done after it: %s", again.LogValue())
			}
		})
	}
}

func TestLabelValue(t *testing.T) {
	t.Parallel()
	for d, want := range map[digest.Digest]string{
		digest.FromString("x"):  digest.FromString("x").Encoded()[:12],
		"sha512:0123456789abcd": "0123456789ab",
		"sha256:short":          "short",
		"":                      "",
		"nonsense":              "",
	} {
		if got := labelValue(d); got != want {
			t.Errorf("%q: got %q, want %q", d, got, want)
		}
	}
}

func TestStateEqual(t *testing.T) {
	t.Parallel()
	states := []State{
		{},
		{Images: map[string]Image{}},
		{Readiness: Ready},
		ready(),
		lost(),
		unknown(),
		{Readiness: Ready, Images: map[string]Image{"cpu": {Readiness: Ready, Digest: "sha256:other"}}},
		{Readiness: Ready, Images: map[string]Image{"gpu": {Readiness: Ready, Digest: "sha256:0123456789abcdef"}}},
	}
	for i, a := range states {
		for j, b := range states {
			if a.equal(b) != (i == j) {
				t.Errorf("%+v and %+v: %v", a, b, a.equal(b))
			}
		}
	}
}

func TestChangesAreLoggedAsText(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "labels", labelChanges{"b": nil, "a": new("1")})
	if !strings.Contains(out.String(), `labels="a=1 b-"`) {
		t.Errorf("got %s", out.String())
	}
}
