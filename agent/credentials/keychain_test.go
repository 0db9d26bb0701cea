package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
)

// Case 27: whichever of two secrets is good, in whichever order, is found with one refused try for each other at most.
func TestSourcesAreTriedInOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes string
		want  []string
	}{
		"first":   {"x", []string{"x"}},
		"second":  {"y", []string{"x", "y"}},
		"third":   {"z", []string{"x", "y", "z"}},
		"nobody":  {"", []string{"x", "y", "z", ""}},
		"no one":  {"other", []string{"x", "y", "z", ""}},
		"another": {"y", []string{"x", "y"}},
	} {
		r := &registry{takes: map[string]bool{c.takes: true}}
		var log bytes.Buffer
		k := keychain(&log,
			&source{name: "one", answers: [][]cri.Credential{{cred("x"), cred("y")}}},
			&source{name: "two", answers: [][]cri.Credential{{cred("y"), cred("z")}}})
		err := k.Try(t.Context(), parse(t, "r.example/a:1"), r.try)
		if d := cmp.Diff(c.want, r.asked); d != "" || (err == nil) == (name == "no one") {
			t.Errorf("%s: %v, asked:\n%s", name, err, d)
		}
		if name != "no one" {
			continue
		}
		if cri.ReasonOf(err) != cri.ReasonUnauthorized || !strings.Contains(err.Error(), "one") || !strings.Contains(err.Error(), "two") {
			t.Errorf("%v does not name the sources", err)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v %s", err, err, err, log.String()), "secret of") {
			t.Errorf("a secret is shown: %v", err)
		}
	}
}

// What was taken last comes first, for that repository.
func TestTheLastGoodOneIsRemembered(t *testing.T) {
	t.Parallel()
	r := &registry{takes: map[string]bool{"y": true}}
	k := keychain(&bytes.Buffer{}, &source{name: "one", answers: [][]cri.Credential{{cred("x"), cred("y")}}})
	for range 3 {
		if err := k.Try(t.Context(), parse(t, "r.example/a:1"), r.try); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"x", "y", "y", "y"}, r.asked); d != "" {
		t.Errorf("asked:\n%s", d)
	}
	r.takes, r.asked = map[string]bool{"x": true}, nil
	if err := k.Try(t.Context(), parse(t, "r.example/a:2"), r.try); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"y", "x"}, r.asked); d != "" {
		t.Errorf("after it was revoked, asked:\n%s", d)
	}
}

// Case 33: a secret that was changed is used at once, also where the registry would still take the old one; of one that was
// deleted nothing is left.
func TestASecretThatChangesOrGoes(t *testing.T) {
	t.Parallel()
	file := write(t, "")
	k := keychain(&bytes.Buffer{}, NewSecret(file))
	for _, password := range []string{"one", "two", ""} {
		text := fmt.Sprintf(`{"auths": {"r.example": {"username": "u", "password": %q}}}`, password)
		err := os.WriteFile(file, []byte(text), 0o600)
		if password == "" {
			err = os.Remove(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		var used []string
		if err := k.Try(t.Context(), parse(t, "r.example/a:1"), func(c *cri.Credential) error {
			if c == nil {
				c = &cri.Credential{}
			}
			used = append(used, c.Password)
			return nil
		}); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]string{password}, used); d != "" {
			t.Errorf("used:\n%s", d)
		}
	}
}

// The source whose credential was taken is asked first, so that those before it are not refused again and again.
func TestTheSourceOfTheLastGoodOneComesFirst(t *testing.T) {
	t.Parallel()
	one, two := &source{name: "one", answers: [][]cri.Credential{{cred("x")}}}, &source{name: "two", answers: [][]cri.Credential{{cred("y")}}}
	r := &registry{takes: map[string]bool{"y": true}}
	k := keychain(&bytes.Buffer{}, one, two)
	for range 2 {
		if err := k.Try(t.Context(), parse(t, "r.example/a:1"), r.try); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"x", "y", "y"}, r.asked); d != "" || one.finds != 1 {
		t.Errorf("%d questions to the first, asked:\n%s", one.finds, d)
	}
	two.answers, r.takes, r.asked = [][]cri.Credential{nil}, map[string]bool{"x": true}, nil
	if err := k.Try(t.Context(), parse(t, "r.example/a:1"), r.try); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"x"}, r.asked); d != "" {
		t.Errorf("when it has nothing any more, asked:\n%s", d)
	}
}

// That somebody gave up waiting is no fault of a source.
func TestGivingUpIsNotTold(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var log bytes.Buffer
	k := keychain(&log, &source{name: "one", err: context.Canceled})
	if err := k.Try(ctx, parse(t, "r.example/a:1"), func(*cri.Credential) error { return context.Canceled }); !errors.Is(err, context.Canceled) || log.Len() > 0 {
		t.Errorf("%v, told:\n%s", err, log.String())
	}
}

// Case 30 e: a token that is refused is asked for once more, at once and once.
func TestARefusedTokenIsRenewedOnce(t *testing.T) {
	t.Parallel()
	r := &registry{takes: map[string]bool{"new": true}}
	s := &source{name: "plugin", again: true, answers: [][]cri.Credential{{cred("old")}, {cred("new")}}}
	if err := keychain(&bytes.Buffer{}, s).Try(t.Context(), parse(t, "r.example/a:1"), r.try); err != nil || s.finds != 2 {
		t.Errorf("%v after %d questions", err, s.finds)
	}
	// The same, where the old one had been taken before.
	r.takes, s.finds = map[string]bool{"old": true}, 0
	k := keychain(&bytes.Buffer{}, s)
	if err := k.Try(t.Context(), parse(t, "r.example/a:1"), r.try); err != nil {
		t.Fatal(err)
	}
	r.takes, r.asked, s.finds = map[string]bool{"new": true}, nil, 0
	err := k.Try(t.Context(), parse(t, "r.example/a:1"), r.try)
	if d := cmp.Diff([]string{"old", "new"}, r.asked); err != nil || d != "" {
		t.Errorf("after the last good one has expired: %v, asked:\n%s", err, d)
	}
	r.takes, r.asked, s.finds = nil, nil, 0
	if err := keychain(&bytes.Buffer{}, s).Try(t.Context(), parse(t, "r.example/a:1"), r.try); err == nil || s.finds != 2 || len(r.asked) != 3 {
		t.Errorf("%v after %d questions and tries %q: want old, new, nobody", err, s.finds, r.asked)
	}
}

// What has nothing to do with who asks is no reason to try another.
func TestOtherErrorsEndTheSearch(t *testing.T) {
	t.Parallel()
	for _, reason := range []cri.Reason{cri.ReasonRateLimited, cri.ReasonRegistryUnavailable, cri.ReasonImageNotFound, cri.ReasonCanceled} {
		r := &registry{fails: &cri.Error{Reason: reason, Noun: "r", Err: errors.New("no")}}
		k := keychain(&bytes.Buffer{}, &source{name: "one", answers: [][]cri.Credential{{cred("x"), cred("y")}}})
		if err := k.Try(t.Context(), parse(t, "r.example/a:1"), r.try); cri.ReasonOf(err) != reason || len(r.asked) != 1 {
			t.Errorf("%s: %v after %d tries", reason, err, len(r.asked))
		}
	}
}

// Cases 29 and 33: a source that fails is told once for as long as it fails, and stops no other.
func TestASourceThatFailsIsToldOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	broken := &source{name: "secret gone", err: errors.New("cannot be read")}
	r := &registry{takes: map[string]bool{"": true}}
	k := keychain(&log, broken)
	for range 3 {
		if err := k.Try(t.Context(), parse(t, "r.example/a:1"), r.try); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
	broken.err = nil
	_ = k.Try(t.Context(), parse(t, "r.example/a:1"), r.try)
	broken.err = errors.New("cannot be read")
	r.takes = nil
	err := k.Try(t.Context(), parse(t, "r.example/a:1"), r.try)
	if n := strings.Count(log.String(), "cannot be read"); n != 2 || err == nil || !strings.Contains(err.Error(), "secret gone: cannot be read") {
		t.Errorf("told %d times, and %v", n, err)
	}
}
