package cri

import (
	"encoding"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

// Reference is an image reference that has been checked: host/repository with a tag, a digest, or both.
type Reference struct {
	named reference.Named
}

var (
	_ fmt.Stringer           = Reference{}
	_ encoding.TextMarshaler = Reference{}
)

// placeholders are the ways in which templates leave a value unreplaced.
var placeholders = regexp.MustCompile(`[$<>{}%]`)

// ParseReference checks what a user wrote and completes it as Docker, containerd and the kubelet do: no host means
// docker.io, no tag and no digest mean :latest. White space around it is ignored. Everything that the runtime would
// refuse is refused here, before anything is asked of anybody, with the text quoted and a remedy.
func ParseReference(s string) (Reference, error) {
	s = strings.TrimSpace(s)
	bad := func(why, remedy string) (Reference, error) {
		return Reference{}, &Error{
			Reason: ReasonInvalidReference, Noun: fmt.Sprintf("image reference %q", s),
			Err: errors.New(why), Remedy: remedy,
		}
	}
	switch {
	case s == "":
		return bad("is empty", "write host/repository:tag")
	case strings.Contains(s, "://"):
		return bad("is a URL", "leave the scheme away: "+s[strings.Index(s, "://")+3:])
	case placeholders.MatchString(s):
		return bad("looks like a template whose value was not filled in", "write the value itself")
	case strings.ContainsAny(s, " \t\r\n"):
		return bad("has white space in it", "write one reference without blanks")
	}
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		if lower := lowerName(s); lower != s {
			if _, lerr := reference.ParseNormalizedNamed(lower); lerr == nil {
				return bad(err.Error(), "repositories are lower case: "+lower)
			}
		}
		if strings.Contains(s, "@") {
			return bad(err.Error(), "a digest is sha256: and 64 hexadecimal digits")
		}
		return bad(err.Error(), "write host/repository:tag or host/repository@sha256:…")
	}
	if d, ok := named.(reference.Digested); ok && d.Digest().Algorithm() != digest.SHA256 {
		return bad(fmt.Sprintf("digest algorithm %s is not one that runtimes take", d.Digest().Algorithm()), "use sha256")
	}
	return Reference{named: reference.TagNameOnly(named)}, nil
}

// lowerName gives s with the repository in lower case and the tag as it was.
func lowerName(s string) string {
	name, rest := s, ""
	if i := strings.IndexByte(s, '@'); i >= 0 {
		name, rest = s[:i], s[i:]
	}
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, rest = name[:i], name[i:]+rest
	}
	return strings.ToLower(name) + rest
}

// IsZero reports whether r is the zero value, which no reference is.
func (r Reference) IsZero() bool { return r.named == nil }

// String gives the full name, with tag and digest where it has them.
func (r Reference) String() string {
	if r.named == nil {
		return ""
	}
	return r.named.String()
}

// MarshalText gives String.
func (r Reference) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Host is the registry's host and port, docker.io for Docker Hub.
func (r Reference) Host() string {
	if r.named == nil {
		return ""
	}
	return reference.Domain(r.named)
}

// Repository is the name without tag and digest.
func (r Reference) Repository() string {
	if r.named == nil {
		return ""
	}
	return r.named.Name()
}

// Tag is the tag, empty where there is none.
func (r Reference) Tag() string {
	if t, ok := r.named.(reference.Tagged); ok {
		return t.Tag()
	}
	return ""
}

// Digest is the digest that the user wrote, empty where there is none. A reference with a digest is fixed: it means the
// same for ever, and its tag, if it has one too, is never looked at.
func (r Reference) Digest() digest.Digest {
	if d, ok := r.named.(reference.Digested); ok {
		return d.Digest()
	}
	return ""
}

// Canonical is the name under which the runtime knows the image: where there are a tag and a digest, containerd forgets
// the tag (distribution/reference ParseDockerRef), so the digest form is the one to ask for.
func (r Reference) Canonical() string {
	if d := r.Digest(); d != "" {
		return r.named.Name() + "@" + d.String()
	}
	return r.String()
}

// Fixed is the same repository with a digest instead of a tag: what it means never changes.
func (r Reference) Fixed(d digest.Digest) (Reference, error) {
	if r.named == nil {
		return Reference{}, errors.New("a digest of no repository")
	}
	fixed, err := reference.WithDigest(reference.TrimNamed(r.named), d)
	if err != nil {
		return Reference{}, &Error{Reason: ReasonInvalidReference, Noun: r.String() + "@" + d.String(), Err: err}
	}
	return Reference{named: fixed}, nil
}
