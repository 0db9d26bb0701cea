package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxManifest bounds what a registry may send as a manifest, an index or a configuration, in bytes. The distribution
// specification asks registries to take 4 MiB; configurations of images with a long history are larger at times.
const maxManifest = 8 << 20

// resolveTimeout bounds a whole Resolve, a few small requests: a registry that accepts and never answers is away.
const resolveTimeout = time.Minute

// Resolve asks the registry what a reference means, through the mirrors and certificates of the runtime's hosts.toml,
// and reads manifest and configuration for this node's platform. What the runtime already stores is not fetched again.
// The registry gets the credential; nil means none.
func (r *Runtime) Resolve(ctx context.Context, ref Reference, c *Credential) (Image, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	var used transports
	defer used.close()
	resolver := docker.NewResolver(docker.ResolverOptions{
		Hosts: config.ConfigureHosts(ctx, config.HostOptions{
			HostDir: hostDir(r.info.RegistryConfigPath), Credentials: c.forHost(ref), UpdateClient: used.add,
		}),
	})
	name, target, err := resolver.Resolve(ctx, ref.Canonical())
	if err != nil {
		return Image{}, registryError(ref.String(), err)
	}
	if target.MediaType == images.MediaTypeDockerSchema1Manifest {
		return Image{}, &Error{
			Reason: ReasonInvalidImage, Noun: ref.String(), Remedy: "push it again with a current tool",
			Err: errors.New("is a Docker schema 1 manifest, which runtimes do not take any more"),
		}
	}
	fetcher, err := resolver.Fetcher(ctx, name)
	if err != nil {
		return Image{}, registryError(ref.String(), err)
	}
	p := &provider{fetcher: fetcher}
	if r.native != nil {
		ctx = inNamespace(ctx)
		p.local = r.native.ContentStore()
	}
	img, err := r.describe(ctx, ref, target, p)
	return img, describeError(ref, target, p, err)
}

// transports are those that a resolver has made, for registries and mirrors.
type transports []*http.Transport

func (t *transports) add(client *http.Client) error {
	if transport, ok := client.Transport.(*http.Transport); ok {
		*t = append(*t, transport)
	}
	return nil
}

// close ends their connections: the next question is hours away.
func (t *transports) close() {
	for _, transport := range *t {
		transport.CloseIdleConnections()
	}
}

// describeError says what a failure to read manifest and configuration means.
func describeError(ref Reference, target ocispec.Descriptor, p *provider, err error) error {
	switch {
	case err == nil:
		return nil
	case p.missing.Digest == target.Digest: // it went away after the registry had named it
		return registryError(ref.String(), err)
	case p.missing.Digest != "":
		return &Error{
			Reason: ReasonManifestMissing, Noun: ref.String(), Remedy: "push the image again; what is on the node stays as it is",
			Err: fmt.Errorf("%s names %s for %s, and the registry has none: %w", target.Digest, p.missing.Digest, platforms.DefaultString(), err),
		}
	case errdefs.IsNotFound(err) && images.IsIndexType(target.MediaType):
		return &Error{
			Reason: ReasonNoMatchingPlatform, Noun: ref.String(), Remedy: "push an image for this platform, or keep the entry off these nodes",
			Err: fmt.Errorf("index %s has nothing for %s", target.Digest, platforms.DefaultString()),
		}
	case errdefs.IsNotFound(err):
		return &Error{Reason: ReasonInvalidImage, Noun: ref.String(), Err: err}
	default:
		return registryError(ref.String(), err)
	}
}

// hostDir finds the folder of a registry's hosts.toml in a list of folders, as containerd's CRI does; the first that has
// one wins.
func hostDir(configPath string) func(string) (string, error) {
	return func(host string) (string, error) {
		for _, root := range filepath.SplitList(configPath) {
			dir, err := config.HostDirFromRoot(root)(host)
			if errdefs.IsNotFound(err) {
				continue
			}
			return dir, err
		}
		return "", errdefs.ErrNotFound
	}
}

// provider reads manifests and configurations from the runtime's content store, and from the registry what is not there.
type provider struct {
	local   content.Provider
	fetcher remotes.Fetcher
	// missing is what an index names and the registry does not have.
	missing ocispec.Descriptor
}

var _ content.Provider = (*provider)(nil)

// ReaderAt implements content.Provider.
func (p *provider) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	if desc.Size > maxManifest {
		return nil, &Error{
			Reason: ReasonInvalidImage, Noun: desc.Digest.String(),
			Err: fmt.Errorf("%s is %d bytes long, more than the %d that we take", desc.MediaType, desc.Size, int64(maxManifest)),
		}
	}
	if b, err := p.stored(ctx, desc); err == nil {
		return b, nil
	}
	b, err := p.fetch(ctx, desc)
	if err != nil {
		if errdefs.IsNotFound(err) {
			p.missing = desc
		}
		return nil, fmt.Errorf("reading %s: %w", desc.Digest, err)
	}
	if desc.Digest.Algorithm().FromBytes(b) != desc.Digest {
		return nil, &Error{
			Reason: ReasonDigestMismatch, Noun: desc.Digest.String(),
			Err: fmt.Errorf("the registry sent %d other bytes for %s", len(b), desc.MediaType),
		}
	}
	return blob(b), nil
}

// stored gets all bytes of what the runtime stores. All of it is read before it counts as there: garbage collection may
// take it away while it is read, as it does after an image has been deleted.
func (p *provider) stored(ctx context.Context, desc ocispec.Descriptor) (blob, error) {
	if p.local == nil {
		return nil, errdefs.ErrNotFound
	}
	b, err := content.ReadBlob(ctx, p.local, desc)
	if err == nil && desc.Digest.Algorithm().FromBytes(b) != desc.Digest {
		err = errdefs.ErrDataLoss
	}
	return b, err
}

// fetch gets all bytes of a blob or manifest. Fetch may succeed for one that the registry has not: containerd asks for
// some of them only when they are read (core/remotes/docker, httpReadSeeker).
func (p *provider) fetch(ctx context.Context, desc ocispec.Descriptor) ([]byte, error) {
	rc, err := p.fetcher.Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(rc, maxManifest+1))
	return b, errors.Join(err, rc.Close())
}

// blob is bytes in memory as containerd reads content.
type blob []byte

func (b blob) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (b blob) Size() int64 { return int64(len(b)) }

func (b blob) Close() error { return nil }
