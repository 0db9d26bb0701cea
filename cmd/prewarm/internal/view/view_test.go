package view

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
)

func TestMessageLeavesOutWhatStandsBesideIt(t *testing.T) {
	t.Parallel()
	_, malformed := cri.ParseReference("https://registry.example/a:1")
	gone := &cri.Error{Reason: cri.ReasonImageNotFound, Noun: ref, Err: errors.New("404\n not\x1b[2J found"), Remedy: "check the tag"}
	for name, tc := range map[string]struct {
		reference string
		err       error
		want      string
	}{
		"none":                {ref, nil, ""},
		"of the reference":    {ref, gone, "404 not�[2J found (check the tag)"},
		"wrapped":             {ref, fmt.Errorf("trying: %w", gone), "404 not�[2J found (check the tag)"},
		"twice translated":    {ref, &cri.Error{Reason: cri.ReasonImageNotFound, Noun: ref, Err: gone, Remedy: "check the tag"}, "404 not�[2J found (check the tag)"},
		"of something else":   {ref, &cri.Error{Reason: cri.ReasonRuntimeUnavailable, Noun: "socket /x", Err: errors.New("refused")}, "socket /x: refused"},
		"malformed":           {"https://registry.example/a:1", malformed, "is a URL (leave the scheme away: registry.example/a:1)"},
		"without translation": {ref, errors.New("a\nb"), "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Message(tc.reference, tc.err); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestNameIsOneWord(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"a:1": "a:1", " a:1\n": "a:1", "": `""`, "a b": `"a b"`, "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`, "ä": "ä",
	} {
		if got := Name(arg); got != want {
			t.Errorf("%q: %s, want %s", arg, got, want)
		}
	}
}

func TestShortDigests(t *testing.T) {
	t.Parallel()
	d := layer(7, cri.LayerDone, 0, 0).Digest
	if got := short(d); got != "sha256:000000000007" {
		t.Errorf("short: %q", got)
	}
	if got := short(""); got != "" {
		t.Errorf("short of none: %q", got)
	}
	if got := hex12("sha256:abc"); got != "abc" {
		t.Errorf("hex of a digest that is too short: %q", got)
	}
}
