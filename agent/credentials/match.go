package credentials

import (
	"cmp"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/prewarm-dev/prewarm/cri"
)

// pattern says for which images a credential is: a host, whose labels may be globs, and the beginning of a path.
type pattern struct {
	host, port, path string
}

// dockerHub is the host of Docker Hub's images; its registry goes by several names.
const dockerHub = "docker.io"

// parsePattern reads how a registry is written in a secret or a plugin's answer: with or without a scheme, with the path of
// an API version that docker login writes, in any case (kubelet, pkg/credentialprovider, keyring.go). False where it is no
// registry at all.
func parsePattern(key string) (pattern, bool) {
	key = strings.TrimSpace(key)
	if !strings.HasPrefix(key, "http://") && !strings.HasPrefix(key, "https://") {
		key = "https://" + key
	}
	u, err := url.Parse(key)
	if err != nil || u.Host == "" {
		return pattern{}, false
	}
	p := pattern{host: strings.ToLower(u.Host), path: strings.Trim(u.Path, "/")}
	if host, port, err := net.SplitHostPort(p.host); err == nil {
		p.host, p.port = host, port
	}
	if p.host == "" {
		return pattern{}, false
	}
	for _, version := range []string{"v1", "v2"} {
		if rest, ok := strings.CutPrefix(p.path, version); ok && (rest == "" || rest[0] == '/') {
			p.path = strings.Trim(rest, "/")
			break
		}
	}
	switch p.host {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com", "www.docker.io":
		p.host = dockerHub
	}
	return p, true
}

// matches reports whether a credential is for an image. A glob stands for one label of the host or a part of it. The path
// must be whole elements: a secret for /team is none for /team2, which the kubelet would take it for.
func (p pattern) matches(ref cri.Reference) bool {
	target, ok := parsePattern(ref.Repository())
	if !ok || p.port != target.port {
		return false
	}
	globs, labels := strings.Split(p.host, "."), strings.Split(target.host, ".")
	if len(globs) != len(labels) {
		return false
	}
	for i, glob := range globs {
		if ok, err := path.Match(glob, labels[i]); err != nil || !ok {
			return false
		}
	}
	_, repository, _ := strings.Cut(ref.Repository(), "/")
	return p.path == "" || repository == p.path || strings.HasPrefix(repository, p.path+"/")
}

// bySpecificity orders patterns: hosts without globs first, then long paths, then by name, so that the order is always
// the same.
func bySpecificity(a, b pattern) int {
	globs := func(p pattern) int {
		return strings.Count(p.host, "*") + strings.Count(p.host, "?") + strings.Count(p.host, "[")
	}
	return cmp.Or(
		cmp.Compare(globs(a), globs(b)), cmp.Compare(len(b.path), len(a.path)),
		cmp.Compare(len(b.host), len(a.host)), cmp.Compare(a.host+"/"+a.path, b.host+"/"+b.path),
	)
}

// entry is a credential and what it is for.
type entry struct {
	pattern    pattern
	credential cri.Credential
	// unusable says why there is no credential in it; empty where there is one.
	unusable string
	// odd says what is strange about a credential that can be used.
	odd string
}

// matching picks the entries for an image, the most specific first.
func matching(entries []entry, ref cri.Reference) []entry {
	var found []entry
	for _, e := range entries {
		if e.pattern.matches(ref) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b entry) int { return bySpecificity(a.pattern, b.pattern) })
	return found
}
