package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/cri"
)

func TestTableOfResults(t *testing.T) {
	t.Parallel()
	present := result(Present, "r.example/present:1", 20*time.Millisecond)
	results := []Result{result(Pulled, "r.example/pulled:1", 83*time.Second), present}
	present.Progress.Message = "already present" // the row has said so
	failed := []Result{
		{
			Progress: cri.Progress{Reference: "r.example/failed:1", Phase: cri.PhaseFailed, Reason: cri.ReasonImageNotFound, Message: "404 (check the tag)"},
			Outcome:  Failed, Err: errors.New("x"), Took: time.Second,
		},
		{Progress: cri.Progress{Reference: "r.example/last:1"}, Outcome: NotTried, Err: errors.New("x")},
	}
	for _, tc := range []struct {
		more  []Result
		width int
		want  string
	}{
		{nil, 80, `REFERENCE            RESULT           DIGEST               SIZE     TIME
r.example/pulled:1   pulled           sha256:6105d6cc76af  1.00 kB  1m23s
r.example/present:1  already present  sha256:6105d6cc76af  1.00 kB  0.0s
`},
		{failed, 0, `REFERENCE            RESULT           DIGEST               SIZE     TIME   REASON         MESSAGE
r.example/pulled:1   pulled           sha256:6105d6cc76af  1.00 kB  1m23s  -              -
r.example/present:1  already present  sha256:6105d6cc76af  1.00 kB  0.0s   -              -
r.example/failed:1   failed           -                    -        1.0s   ImageNotFound  404 (check the tag)
r.example/last:1     not tried        -                    -        -      -              -
`},
		{failed, 80, `REFERENCE            RESULT           DIGEST               SIZE     TIME
r.example/pulled:1   pulled           sha256:6105d6cc76af  1.00 kB  1m23s
r.example/present:1  already present  sha256:6105d6cc76af  1.00 kB  0.0s
r.example/failed:1   failed           -                    -        1.0s
  ImageNotFound: 404 (check the tag)
r.example/last:1     not tried        -                    -        -
`},
		{failed, 60, `REFERENCE            RESULT           SIZE     TIME
r.example/pulled:1   pulled           1.00 kB  1m23s
r.example/present:1  already present  1.00 kB  0.0s
r.example/failed:1   failed           -        1.0s
  ImageNotFound: 404 (check the tag)
r.example/last:1     not tried        -        -
`},
		{failed, 40, `REFERENCE
  RESULT           SIZE     TIME
r.example/pulled:1
  pulled           1.00 kB  1m23s
r.example/present:1
  already present  1.00 kB  0.0s
r.example/failed:1
  failed           -        1.0s
  ImageNotFound: 404 (check the tag)
r.example/last:1
  not tried        -        -
`},
	} {
		var out bytes.Buffer
		if err := Results(&out, slices.Concat(results, tc.more), tc.width); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, out.String()); diff != "" {
			t.Errorf("table (-want +got):\n%s", diff)
		}
	}
	if err := Results(broken{}, results, 0); !errors.Is(err, errBroken) {
		t.Errorf("to a broken pipe: %v", err)
	}
}

// planned is a plan of two images that share their first layer, which is missing; both have one that is there.
func planned(t *testing.T) cri.Plan {
	t.Helper()
	l := func(name string, size int64) cri.Layer {
		return cri.Layer{Digest: digest.FromString(name), Size: size, ChainID: digest.FromString("chain of " + name)}
	}
	var p cri.Plan
	for _, own := range []string{"a", "b"} {
		parsed, err := cri.ParseReference("r.example/" + own + ":1")
		if err != nil {
			t.Fatal(err)
		}
		img := cri.Image{Reference: parsed, Digest: digest.FromString(own), Layers: []cri.Layer{l("there", 5), l("shared", 1_000_000), l(own, 500_000)}}
		p.Images = append(p.Images, cri.ImagePlan{
			Image: img, Fetch: 500_000, Unpack: 1_400_000,
			Layers: []cri.PlannedLayer{
				{Layer: img.Layers[0], Present: 5, State: cri.LayerDone},
				{Layer: img.Layers[1], State: cri.LayerWaiting},
				{Layer: img.Layers[2], State: cri.LayerWaiting},
			},
		})
	}
	p.Images[0].Fetch, p.Images[0].Unpack = 1_500_000, 4_200_000
	p.Fetch, p.Unpack, p.Detail = 2_000_000, 5_600_000, cri.DetailLayers
	p.Disk = &cri.Disk{Path: "/var/lib/containerd", Total: 100_000_000, Free: 50_000_000}
	return p
}

func TestTableOfAPlan(t *testing.T) {
	t.Parallel()
	failed := []Failure{{Reference: "r.example/nosuch:1", Reason: cri.ReasonImageNotFound, Message: "404 (check the tag)"}}
	table := func(p Plan) string {
		t.Helper()
		var out bytes.Buffer
		if err := p.Table(&out, 0); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	var narrow bytes.Buffer
	if err := NewPlan(planned(t), cri.Info{}, failed).Table(&narrow, 80); err != nil {
		t.Fatal(err)
	}
	want80 := `REFERENCE           LAYERS                   SIZE     FETCH    UNPACK
r.example/a:1       3 (2 missing)            1.50 MB  1.50 MB  ~4.20 MB
r.example/b:1       3 (1 missing, 1 shared)  1.50 MB  500 kB   ~1.40 MB
r.example/nosuch:1  -                        -        -        -
  ImageNotFound: 404 (check the tag)
total               -                        -        2.00 MB  ~5.60 MB
`
	if got, _, _ := strings.Cut(narrow.String(), "\nDisk"); got != want80 {
		t.Errorf("on a terminal of 80 columns:\n%s\nwant:\n%s", got, want80)
	}
	want := `REFERENCE           DIGEST               LAYERS                   SIZE     FETCH    UNPACK    REASON         MESSAGE
r.example/a:1       sha256:ca978112ca1b  3 (2 missing)            1.50 MB  1.50 MB  ~4.20 MB  -              -
r.example/b:1       sha256:3e23e8160039  3 (1 missing, 1 shared)  1.50 MB  500 kB   ~1.40 MB  -              -
r.example/nosuch:1  -                    -                        -        -        -         ImageNotFound  404 (check the tag)
total               -                    -                        -        2.00 MB  ~5.60 MB  -              -

Disk of /var/lib/containerd: 50.0 MB of 100 MB free now, ~42.4 MB after.
`
	if diff := cmp.Diff(want, table(NewPlan(planned(t), cri.Info{}, failed))); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}

	present := planned(t)
	present.Images, present.Fetch, present.Unpack = present.Images[:1], 0, 0
	present.Images[0].Fetch, present.Images[0].Unpack = 0, 0
	for i := range present.Images[0].Layers {
		present.Images[0].Layers[i].State = cri.LayerDone
	}
	want = `REFERENCE      DIGEST               LAYERS         SIZE     FETCH  UNPACK
r.example/a:1  sha256:ca978112ca1b  3 (0 missing)  1.50 MB  0 B    0 B

Disk of /var/lib/containerd: 50.0 MB of 100 MB free now, ~50.0 MB after.
`
	if diff := cmp.Diff(want, table(NewPlan(present, cri.Info{}, nil))); diff != "" {
		t.Errorf("table of what is present (-want +got):\n%s", diff)
	}

	small := planned(t)
	small.Disk.Free = 6_000_000
	if got := table(NewPlan(small, cri.Info{DiscardsLayers: true}, nil)); !strings.Contains(got, "6.00 MB of 100 MB free now, ~400 kB after; too small by ~1.60 MB while") {
		t.Errorf("a disk that is too small: %s", got)
	}
	unseen := planned(t)
	unseen.Disk, unseen.Detail = nil, cri.DetailUnavailable
	if got := table(NewPlan(unseen, cri.Info{}, nil)); !strings.Contains(got, "Disk: unknown") || !strings.Contains(got, "all count as missing") {
		t.Errorf("a runtime that tells little: %s", got)
	}
	if err := NewPlan(unseen, cri.Info{}, nil).Table(broken{}, 0); !errors.Is(err, errBroken) {
		t.Errorf("to a broken pipe: %v", err)
	}
}

func TestJSONOfAPlan(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	failed := NewFailure("r.example/nosuch:1", &cri.Error{Reason: cri.ReasonImageNotFound, Noun: "r.example/nosuch:1", Err: errors.New("404")})
	if err := NewPlan(planned(t), cri.Info{}, []Failure{failed}).JSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Images []struct {
			Image struct{ Reference, Digest string }
			Fetch int64
		}
		Fetch                 int64
		UnpackEstimate        int64
		Disk                  cri.Disk
		DiskFreeAfterEstimate int64
		Errors                []Failure
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Images) != 2 || got.Images[1].Image.Reference != "r.example/b:1" || got.Images[1].Fetch != 500_000 ||
		got.Fetch != 2_000_000 || got.UnpackEstimate != 5_600_000 || got.Disk.Free != 50_000_000 || got.DiskFreeAfterEstimate != 42_400_000 {
		t.Errorf("plan %+v", got)
	}
	failed.Err = nil // of no use to programs
	if diff := cmp.Diff([]Failure{failed}, got.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	out.Reset()
	if err := NewPlan(cri.Plan{}, cri.Info{}, nil).JSON(&out); err != nil || !strings.Contains(out.String(), `"errors":[]`) {
		t.Errorf("without errors: %s, %v", out.String(), err)
	}
}
