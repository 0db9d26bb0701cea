// Package credentials finds what registries want to know of who asks: in image pull secrets, from the kubelet's credential
// provider plugins, from Amazon ECR, and last of all nothing. It keeps no secret longer than it must, and shows none.
package credentials

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/prewarm-dev/prewarm/cri"
)

// Source is where credentials come from.
type Source interface {
	// Name tells people which source it is; there is no secret in it.
	Name() string
	// Find gives the credentials for a reference, the most specific first. That there are none is no error.
	Find(ctx context.Context, ref cri.Reference) ([]cri.Credential, error)
	// Refused tells that the registry did not take what Find gave. It reports whether Find may give something else now.
	Refused(ref cri.Reference) bool
}

// Keychain tries sources in order. Its methods may be called from several goroutines.
type Keychain struct {
	sources []Source
	log     *slog.Logger

	mu sync.Mutex
	// good says what a repository took last.
	good map[string]taken
	// told are the errors of sources that have been logged, so that one that stays is told once.
	told map[string]string
}

// NewKeychain tries the sources in this order, and then without credentials.
func NewKeychain(log *slog.Logger, sources ...Source) *Keychain {
	return &Keychain{sources: sources, log: log, good: map[string]taken{}, told: map[string]string{}}
}

// taken says where a credential came from and which of that source it was. It does not keep the credential: one that its
// source no longer gives, such as that of a secret that was changed or deleted, is not used again.
type taken struct {
	source Source
	mark   [sha256.Size]byte
}

// fingerprint tells credentials apart.
func fingerprint(c cri.Credential) [sha256.Size]byte {
	return sha256.Sum256([]byte(c.Username + "\x00" + c.Password))
}

// attempts is one search for a credential that a registry takes.
type attempts struct {
	*Keychain

	ref cri.Reference
	try func(*cri.Credential) error
	// tried are the credentials that were refused, and refused the names of where they came from.
	tried   map[cri.Credential]bool
	refused []string
	broken  []error
}

// Try calls try with one credential after the other, and nil, for none, last, as long as the registry refuses them
// (cri.ReasonUnauthorized): that one is wrong says nothing of the next, and a public image wants none. The source of the
// one that was taken before comes first, and in it that one. It gives the error of the last call; where all were refused it
// says which sources they are from.
func (k *Keychain) Try(ctx context.Context, ref cri.Reference, try func(*cri.Credential) error) error {
	a := attempts{Keychain: k, ref: ref, try: try, tried: map[cri.Credential]bool{}}
	for _, s := range k.order(ref) {
		if done, err := a.source(ctx, s); done {
			return err
		}
	}
	err := try(nil)
	if cri.ReasonOf(err) != cri.ReasonUnauthorized {
		return err
	}
	return a.fail(err)
}

// source tries what a source has, and once more if that was refused and the source can find something new.
func (a *attempts) source(ctx context.Context, s Source) (done bool, err error) {
	for range 2 {
		found, err := s.Find(ctx, a.ref)
		a.tell(ctx, s, err)
		refused := false
		for _, c := range a.goodFirst(a.ref, s, found) {
			if a.tried[c] { // before, or of another source
				refused = true
				continue
			}
			if done, err := a.use(s, c); done {
				return true, err
			}
			refused = true
		}
		if !refused || !s.Refused(a.ref) {
			return false, nil
		}
	}
	return false, nil
}

// use tries one credential; done is false where the registry refused it.
func (a *attempts) use(s Source, c cri.Credential) (done bool, err error) {
	a.tried[c] = true
	err = a.try(&c)
	if cri.ReasonOf(err) == cri.ReasonUnauthorized {
		a.forget(a.ref, taken{source: s, mark: fingerprint(c)})
		if !slices.Contains(a.refused, s.Name()) {
			a.refused = append(a.refused, s.Name())
		}
		return false, nil
	}
	if err == nil {
		a.remember(a.ref, taken{source: s, mark: fingerprint(c)})
	}
	return true, err
}

// fail says what was tried in vain.
func (a *attempts) fail(err error) error {
	e := &cri.Error{Reason: cri.ReasonUnauthorized, Noun: a.ref.String(), Err: err}
	switch {
	case len(a.refused) > 0:
		e.Err = fmt.Errorf("%s does not take what is known from %s, nor nobody: %w", a.ref.Host(), strings.Join(a.refused, ", "), err)
		e.Remedy = "renew the credentials, and check that they may read this repository"
	default:
		e.Err = fmt.Errorf("no credentials are known for %s: %w", a.ref.Host(), err)
		e.Remedy = "mount an image pull secret, or name the kubelet's credential providers"
	}
	if broken := errors.Join(a.broken...); broken != nil {
		e.Err = fmt.Errorf("%w; %w", e.Err, broken)
	}
	return e
}

// tell logs an error of a source, once for as long as it stays. That a question was given up is none.
func (a *attempts) tell(ctx context.Context, s Source, err error) {
	if ctx.Err() != nil {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
		a.broken = append(a.broken, fmt.Errorf("%s: %w", s.Name(), err))
	}
	key := s.Name() + " " + a.ref.Host()
	a.mu.Lock()
	before := a.told[key]
	a.told[key] = text
	a.mu.Unlock()
	if text != "" && text != before {
		a.log.WarnContext(ctx, "a source of credentials has a problem; what else is known is tried", "from", s.Name(), "registry", a.ref.Host(), "error", err)
	}
}

// order gives the sources, that of the last good credential first.
func (k *Keychain) order(ref cri.Reference) []Source {
	k.mu.Lock()
	defer k.mu.Unlock()
	good := k.good[ref.Repository()].source
	if good == nil {
		return k.sources
	}
	rest := slices.DeleteFunc(slices.Clone(k.sources), func(s Source) bool { return s == good })
	return append([]Source{good}, rest...)
}

// goodFirst puts the last good one of a source's credentials first.
func (k *Keychain) goodFirst(ref cri.Reference, s Source, found []cri.Credential) []cri.Credential {
	k.mu.Lock()
	defer k.mu.Unlock()
	good := k.good[ref.Repository()]
	i := slices.IndexFunc(found, func(c cri.Credential) bool { return good == taken{source: s, mark: fingerprint(c)} })
	if i < 1 {
		return found
	}
	return append([]cri.Credential{found[i]}, slices.Delete(slices.Clone(found), i, i+1)...)
}

func (k *Keychain) remember(ref cri.Reference, t taken) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.good[ref.Repository()] = t
}

func (k *Keychain) forget(ref cri.Reference, t taken) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.good[ref.Repository()] == t {
		delete(k.good, ref.Repository())
	}
}
