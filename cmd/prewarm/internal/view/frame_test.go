package view

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
)

func canvas(width, height int) Canvas {
	return Canvas{Width: width, Height: height, Now: epoch.Add(72 * time.Second), Since: epoch.Add(60 * time.Second)}
}

func draw(p cri.Progress, c Canvas) string { return "\n" + strings.Join(Frame(p, c), "\n") + "\n" }

func TestFrameOfAPull(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]string{
		200: `
registry.example/team/app:1.0  sha256:6105d6cc76af
  000000000001  29.5 MB  done
  000000000002   512 MB  unpacking  1m12s
  000000000003  1.23 kB  fetched    [==================================================]
  000000000004  1.23 GB  fetching   [================================>                 ]  800 MB  65%
  000000000005     32 B  waiting    [                                                  ]
  total         1.77 GB  pulling    [=====================================>            ]  75% 20.1 MB/s    21s left
`,
		80: `
registry.example/team/app:1.0  sha256:6105d6cc76af
  000000000001  29.5 MB  done
  000000000002   512 MB  unpacking  1m12s
  000000000003  1.23 kB  fetched    [==============]
  000000000004  1.23 GB  fetching   [========>     ]  800 MB  65%
  000000000005     32 B  waiting    [              ]
  total         1.77 GB  pulling    [==========>   ]  75% 20.1 MB/s    21s left
`,
		60: `
registry.example/team/app:1.0  sha256:6105d6cc76af
  000000000001  29.5 MB  done
  000000000002   512 MB  unpacking  1m12s
  000000000003  1.23 kB  fetched    [========]
  000000000004  1.23 GB  fetching   [====>   ]  800 MB  65%
  000000000005     32 B  waiting    [        ]
  total         1.77 GB  [=======>  ]  75% 20.1 MB/s    21s
`,
		40: `
registry.example/team/app:1.0
  000000000001  done
  000000000002  unpacking  1m12s
  000000000003  fetched
  000000000004  fetching    800 MB  65%
  000000000005  waiting
  total          75% 20.1 MB/s    21s
`,
	} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want, draw(midway(), canvas(width, 24))); diff != "" {
				t.Errorf("frame (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFrameOfOtherPhases(t *testing.T) {
	t.Parallel()
	resolving := cri.Progress{Reference: ref, Phase: cri.PhaseResolving}
	unseen := cri.Progress{Reference: ref, Phase: cri.PhasePulling, Detail: cri.DetailUnavailable, Bytes: cri.Bytes{Total: 29_500_000}}
	unpacking := pulling(layer(1, cri.LayerDone, 10, 10), layer(2, cri.LayerUnpacking, 1000, 1000))
	unpacking.Phase = cri.PhaseUnpacking
	resumed := pulling(layer(1, cri.LayerFetching, 750, 1000))
	resumed.Bytes = cri.Bytes{Total: 1000, Present: 250, Fetched: 500}
	for name, tc := range map[string]struct {
		p    cri.Progress
		want string
	}{
		"resolving": {resolving, `
registry.example/team/app:1.0
  resolving  12s
`},
		"a runtime that shows nothing": {unseen, `
registry.example/team/app:1.0
  total         29.5 MB  pulling    12s, the runtime shows no bytes
`},
		"unpacking": {unpacking, `
registry.example/team/app:1.0  sha256:6105d6cc76af
  000000000001     10 B  done
  000000000002  1.00 kB  unpacking  1m12s
  total         1.01 kB  unpacking  1 of 2 layers done, 12s
`},
		"resumed, without a rate yet": {resumed, `
registry.example/team/app:1.0  sha256:6105d6cc76af
  000000000001  1.00 kB  fetching   [==========>   ]   750 B  75%
  total         1.00 kB  pulling    [++++======>   ]  75%
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, draw(tc.p, canvas(80, 24))); diff != "" {
				t.Errorf("frame (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAReferenceThatIsTooLongKeepsItsTag(t *testing.T) {
	t.Parallel()
	p := cri.Progress{Reference: "public.ecr.aws/sagemaker/sagemaker-distribution:latest-cpu", Phase: cri.PhaseResolving}
	c := canvas(60, 24)
	c.Label = "[2/3] "
	if got := Frame(p, c)[0]; !strings.HasPrefix(got, "[2/3] …") || !strings.HasSuffix(got, ":latest-cpu") || cells(got) != 59 {
		t.Errorf("%q (%d cells)", got, cells(got))
	}
}

func TestManyLayersKeepWithinTheHeight(t *testing.T) {
	t.Parallel()
	var layers []cri.LayerProgress
	for n := range 40 {
		switch {
		case n < 12:
			layers = append(layers, layer(n, cri.LayerDone, 10, 10))
		case n == 12:
			layers = append(layers, layer(n, cri.LayerUnpacking, 10, 10))
		case n < 15:
			layers = append(layers, layer(n, cri.LayerFetched, 10, 10))
		case n == 30 || n == 31:
			layers = append(layers, layer(n, cri.LayerFetching, 5, 10))
		default:
			layers = append(layers, layer(n, cri.LayerWaiting, 0, 10))
		}
	}
	c := canvas(80, 10)
	c.Label = "[2/3] "
	want := `
[2/3] registry.example/team/app:1.0  sha256:6105d6cc76af
  000000000012     10 B  unpacking  1m12s
  000000000013     10 B  fetched    [==============]
  000000000014     10 B  fetched    [==============]
  000000000015     10 B  waiting    [              ]
  000000000030     10 B  fetching   [======>       ]     5 B  50%
  000000000031     10 B  fetching   [======>       ]     5 B  50%
  and 34 more: 22 waiting, 12 done
  total           400 B  pulling    [=====>        ]  40%
`
	if diff := cmp.Diff(want, draw(pulling(layers...), c)); diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}
	for height, lines := range map[int]int{1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 43: 42, 50: 42} {
		if got := Frame(pulling(layers...), canvas(80, height)); len(got) != lines {
			t.Errorf("height %d: %d lines, want %d:\n%s", height, len(got), lines, strings.Join(got, "\n"))
		}
	}
}

// sgr is a sequence that sets colours.
var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestAFrameFitsWhateverItShows(t *testing.T) {
	t.Parallel()
	states := []cri.LayerState{cri.LayerWaiting, cri.LayerFetching, cri.LayerFetched, cri.LayerUnpacking, cri.LayerDone}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var layers []cri.LayerProgress
		for n := range rnd.IntN(60) {
			size := rnd.Int64N(1 << rnd.IntN(45))
			layers = append(layers, layer(n, states[rnd.IntN(5)], rnd.Int64N(size+1), size))
		}
		p := pulling(layers...)
		p.Phase = cri.Phases()[rnd.IntN(len(cri.Phases()))]
		p.Reference = strings.Repeat("a", rnd.IntN(200))
		p.Rate = float64(rnd.Int64N(1 << 40))
		if eta := rnd.Float64() * 1e9; rnd.IntN(2) == 0 {
			p.ETASeconds = &eta
		}
		c := canvas(20+rnd.IntN(200), 1+rnd.IntN(70))
		plain := Frame(p, c)
		c.Color = true
		colored := Frame(p, c)
		if len(plain) > max(1, c.Height-1) {
			t.Fatalf("seed %d: %d lines on a terminal of %d", seed, len(plain), c.Height)
		}
		for i, line := range plain {
			if n := cells(line); n >= c.Width {
				t.Fatalf("seed %d: %d cells on a terminal of %d: %q", seed, n, c.Width, line)
			}
			if got := sgr.ReplaceAllString(colored[i], ""); got != line {
				t.Fatalf("seed %d: in colours the text is another\n%q\n%q", seed, got, line)
			}
			if strings.Contains(line, "unpacking") && strings.Contains(line, "%") {
				t.Fatalf("seed %d: a percentage for unpacking: %q", seed, line)
			}
		}
	}
}

func TestColors(t *testing.T) {
	t.Parallel()
	c := canvas(80, 24)
	if out := draw(midway(), c); strings.Contains(out, "\x1b") {
		t.Errorf("escape sequences without colour: %q", out)
	}
	c.Color = true
	if out := draw(midway(), c); !strings.Contains(out, "\x1b[32mdone\x1b[0m") || !strings.Contains(out, "\x1b[33munpacking\x1b[0m  1m12s") {
		t.Errorf("no colours: %q", out)
	}
}

func TestEveryStateHasItsInterestAndColor(t *testing.T) {
	t.Parallel()
	for _, s := range []cri.LayerState{cri.LayerWaiting, cri.LayerFetching, cri.LayerFetched, cri.LayerUnpacking, cri.LayerDone} {
		if _, ok := interest[s]; !ok || colors[string(s)] == "" {
			t.Errorf("state %s: interest %v, color %q", s, ok, colors[string(s)])
		}
	}
}
