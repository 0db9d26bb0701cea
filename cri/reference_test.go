package cri_test

import (
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
)

const sha = "sha256:3b1f0a6f0c0d1c2b3a4958677685949392919089888786858483828180ffeedd"

func TestParseReference(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct{ full, canonical, host, tag string }{
		"busybox":                {"docker.io/library/busybox:latest", "docker.io/library/busybox:latest", "docker.io", "latest"},
		"lab/a:1":                {"docker.io/lab/a:1", "docker.io/lab/a:1", "docker.io", "1"},
		"127.0.0.1:5000/lab/c:1": {"127.0.0.1:5000/lab/c:1", "127.0.0.1:5000/lab/c:1", "127.0.0.1:5000", "1"},
		"reg.corp.local/lab/a:1": {"reg.corp.local/lab/a:1", "reg.corp.local/lab/a:1", "reg.corp.local", "1"},
		"r.io/c@" + sha:          {"r.io/c@" + sha, "r.io/c@" + sha, "r.io", ""},
		"r.io/c:1.0@" + sha:      {"r.io/c:1.0@" + sha, "r.io/c@" + sha, "r.io", "1.0"},
		"r.io/c:MixedCase_1":     {"r.io/c:MixedCase_1", "r.io/c:MixedCase_1", "r.io", "MixedCase_1"},
		" r.io/c:1\r\n":          {"r.io/c:1", "r.io/c:1", "r.io", "1"},
	} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			r, err := cri.ParseReference(in)
			if err != nil {
				t.Fatal(err)
			}
			if r.String() != want.full || r.Canonical() != want.canonical || r.Host() != want.host || r.Tag() != want.tag {
				t.Errorf("%q %q %q %q, want %+v", r, r.Canonical(), r.Host(), r.Tag(), want)
			}
			if again, err := cri.ParseReference(r.String()); err != nil || again.String() != r.String() {
				t.Errorf("does not parse back: %q, %v", again, err)
			}
		})
	}
}

func TestBadReferencesAreRefusedWithARemedy(t *testing.T) {
	t.Parallel()
	for in, says := range map[string]string{
		"":                         "is empty",
		"   ":                      "is empty",
		"${SMD_IMAGE}":             "template",
		"{{ .Values.image }}":      "template",
		"127.0.0.1:5000/lab/C:1.0": "127.0.0.1:5000/lab/c:1.0",
		"127.0.0.1:5000/lab/c:":    "write host/repository:tag",
		"r.io/lab/c :1.0":          "white space",
		"https://r.io/lab/c:1.0":   "leave the scheme away: r.io/lab/c:1.0",
		"r.io/lab//c:1":            "write host/repository:tag",
		"r.io/lab/c@sha256:abc":    "64 hexadecimal digits",
		"r.io/lab/c@md5:00000000000000000000000000000000":                  "",
		"r.io/lab/c@sha512:" + strings.Repeat("0", 128):                    "use sha256",
		"3b1f0a6f0c0d1c2b3a4958677685949392919089888786858483828180ffeedd": "host/repository",
	} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			r, err := cri.ParseReference(in)
			if err == nil {
				t.Fatalf("accepted as %q", r)
			}
			if cri.ReasonOf(err) != cri.ReasonInvalidReference || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), strings.TrimSpace(in)) {
				t.Errorf("%v: want reason %s, the text quoted, and %q", err, cri.ReasonInvalidReference, says)
			}
		})
	}
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"busybox", "r.io:5000/a/b:1@" + sha, "${X}", "A/B", " x ", "x@", ":", "@" + sha} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := cri.ParseReference(s)
		if err != nil {
			if cri.ReasonOf(err) != cri.ReasonInvalidReference {
				t.Errorf("%q: %v has reason %s", s, err, cri.ReasonOf(err))
			}
			return
		}
		again, err := cri.ParseReference(r.String())
		if err != nil || again.Canonical() != r.Canonical() || r.Host() == "" || r.Repository() == "" {
			t.Errorf("%q gives %q, which gives %q, %v", s, r, again, err)
		}
	})
}
