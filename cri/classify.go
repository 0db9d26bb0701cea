package cri

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// registryError gives an error of our own talk with a registry its reason.
func registryError(noun string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Reason: e.Reason, Noun: noun, Remedy: firstSet(e.Remedy, remedies[e.Reason]), Err: redact(err)}
	}
	reason := typedReason(err)
	if reason == "" {
		reason = wordedReason(err.Error())
	}
	if reason == "" {
		reason = ReasonRegistryUnavailable
	}
	return &Error{Reason: reason, Noun: noun, Remedy: remedies[reason], Err: redact(err)}
}

// runtimeError gives an error of the runtime its reason. CRI has no codes for what went wrong at a registry or on a
// disk, so beyond the gRPC code only the words tell (containerd 1.7 to 2.4).
func (r *Runtime) runtimeError(noun string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Reason: e.Reason, Noun: noun, Remedy: e.Remedy, Err: e}
	}
	reason := runtimeReason(err)
	return &Error{Reason: reason, Noun: noun, Remedy: remedies[reason], Err: redact(err)}
}

func runtimeReason(err error) Reason {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return ReasonCanceled
	}
	words := ""
	s, ok := status.FromError(err)
	if ok {
		words = s.Message()
	} else {
		words = err.Error()
	}
	if reason := wordedReason(words); reason != "" {
		return reason
	}
	switch code := s.Code(); {
	case code == codes.Canceled || code == codes.DeadlineExceeded:
		return ReasonCanceled
	case code == codes.Unavailable || errdefs.IsUnavailable(err):
		return ReasonRuntimeUnavailable
	case code == codes.NotFound:
		return ReasonImageNotFound
	case code == codes.Unauthenticated || code == codes.PermissionDenied:
		return ReasonUnauthorized
	case code == codes.ResourceExhausted:
		return ReasonDiskFull
	}
	return ReasonPullFailed
}

// typedReason judges by the types of errors, where we have them.
func typedReason(err error) Reason {
	if unexpected, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok {
		return statusReason(unexpected.StatusCode)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return ReasonCanceled
	case errors.Is(err, docker.ErrInvalidAuthorization):
		return ReasonUnauthorized
	case errdefs.IsNotFound(err):
		return ReasonImageNotFound
	case errors.Is(err, syscall.ENOSPC):
		return ReasonDiskFull
	case isCertificate(err):
		return ReasonCertificateInvalid
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return ReasonUnknownHost
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return ReasonRegistryUnavailable
	}
	return ""
}

func isCertificate(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.HostnameError](err)
	return ok
}

// statusReason judges a status that a registry answered.
func statusReason(code int) Reason {
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return ReasonUnauthorized
	case code == http.StatusNotFound:
		return ReasonImageNotFound
	case code == http.StatusTooManyRequests:
		return ReasonRateLimited
	default:
		return ReasonRegistryUnavailable
	}
}

// worded pairs words of containerd, Go's network stack and the kernel with reasons; the first match wins, so the more
// telling come first.
var worded = []struct { //nolint:gochecknoglobals // a constant table
	words  string
	reason Reason
}{
	{"no space left on device", ReasonDiskFull},
	{"disk quota exceeded", ReasonDiskFull},
	{"no such host", ReasonUnknownHost},
	{"x509:", ReasonCertificateInvalid},
	{"certificate", ReasonCertificateInvalid},
	{"429 too many requests", ReasonRateLimited},
	{"toomanyrequests", ReasonRateLimited},
	{"no match for platform", ReasonNoMatchingPlatform},
	{"content size of zero", ReasonInvalidLayer},
	{"unexpected commit digest", ReasonDigestMismatch},
	{"unexpected commit size", ReasonDigestMismatch},
	{"failed size validation", ReasonDigestMismatch},
	{"failed to extract layer", ReasonInvalidLayer},
	{"failed to apply", ReasonInvalidLayer},
	{"invalid tar header", ReasonInvalidLayer},
	{"invalid diffid", ReasonInvalidLayer},
	{"wrong diff id", ReasonInvalidLayer},
	{"401 unauthorized", ReasonUnauthorized},
	{"403 forbidden", ReasonUnauthorized},
	{"authorization failed", ReasonUnauthorized},
	{"pull access denied", ReasonUnauthorized},
	{"404 not found", ReasonImageNotFound},
	{": not found", ReasonImageNotFound},
	{"connection refused", ReasonRegistryUnavailable},
	{"connection reset", ReasonRegistryUnavailable},
	{"i/o timeout", ReasonRegistryUnavailable},
	{"tls handshake timeout", ReasonRegistryUnavailable},
	{"unexpected eof", ReasonRegistryUnavailable},
	{`": eof`, ReasonRegistryUnavailable}, // Get "https://…": EOF, where a server hangs up before it answers
	{"short read", ReasonRegistryUnavailable},
	{"500 internal server error", ReasonRegistryUnavailable},
	{"502 bad gateway", ReasonRegistryUnavailable},
	{"503 service unavailable", ReasonRegistryUnavailable},
	{"504 gateway timeout", ReasonRegistryUnavailable},
}

// passing are words that tell of a layer which could not be unpacked that the node is at fault, not the layer: errors of its
// file systems and its memory, and snapshots or content that somebody collected meanwhile.
var passing = []string{ //nolint:gochecknoglobals // a constant table
	"input/output error", "read-only file system", "cannot allocate memory", "too many open files", "resource busy",
	"transport endpoint", "stale file handle", "not found", "no such file or directory", "context canceled", "signal: killed",
}

// unpacking are words of containerd about a layer that it could not unpack, or would not.
var unpacking = []string{"failed to extract layer", "failed to apply"} //nolint:gochecknoglobals // a constant table

// wordedReason judges by the words; "" where none is known. The daemon's own socket being away is not a registry's fault.
func wordedReason(message string) Reason {
	m := strings.ToLower(message)
	if strings.Contains(m, "dial unix") || strings.Contains(m, "error reading from server") {
		return ReasonRuntimeUnavailable
	}
	in := func(words string) bool { return strings.Contains(m, words) }
	full := in("no space left on device") || in("disk quota exceeded")
	if slices.ContainsFunc(unpacking, in) && slices.ContainsFunc(passing, in) && !full {
		return ReasonPullFailed
	}
	i := slices.IndexFunc(worded, func(w struct {
		words  string
		reason Reason
	},
	) bool {
		return strings.Contains(m, w.words)
	})
	if i < 0 {
		return ""
	}
	return worded[i].reason
}

// remedies says what to do about a reason.
var remedies = map[Reason]string{ //nolint:gochecknoglobals // a constant table
	ReasonImageNotFound:       "check the name and the tag; some registries say 404 where credentials are missing",
	ReasonUnauthorized:        "give the node or the agent credentials for this registry",
	ReasonRateLimited:         "the registry limits requests: the next try comes later",
	ReasonRegistryUnavailable: "check the registry and the way to it",
	ReasonUnknownHost:         "check the registry's name and the node's DNS",
	ReasonCertificateInvalid:  "put the registry's CA into the runtime's certs.d folder (hosts.toml)",
	ReasonDiskFull:            "make room on the runtime's file system",
	ReasonInvalidLayer:        "the image is damaged or mislabelled: push it again",
	ReasonDigestMismatch:      "what the registry sent is not what it announced: look for a broken mirror or proxy",
	ReasonNoMatchingPlatform:  "push an image for this platform, or keep the entry off these nodes",
	ReasonRuntimeUnavailable:  "check that the container runtime runs",
	ReasonCanceled:            "what was fetched is kept; the next pull goes on from there",
}

// query is the query of a URL: with storage behind a registry it holds a signature, which is as good as a password.
var query = regexp.MustCompile(`(https?://[^\s"?]+)\?[^\s"]+`)

// redacted is an error without secrets in its words.
type redacted struct {
	words string
	err   error
}

func redact(err error) error {
	words := err.Error()
	if clean := query.ReplaceAllString(words, "$1?…"); clean != words {
		return redacted{words: clean, err: err}
	}
	return err
}

// Error gives the words without URL queries.
func (r redacted) Error() string { return r.words }

// Unwrap gives the error for errors.Is and errors.As; its own words are not for people.
func (r redacted) Unwrap() error { return r.err }
