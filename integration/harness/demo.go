package harness

import (
	"context"
	"errors"

	"github.com/prewarm-dev/prewarm/integration/images"
)

// DemoImage is an image of the demo, and where it is.
type DemoImage struct {
	*images.Image

	// Name is cpu or gpu.
	Name, Reference string
}

// StartDemoRegistry starts a registry in dir that has the demo's images, made of size bytes of files together.
func StartDemoRegistry(ctx context.Context, dir string, size int64) (*Registry, []DemoImage, error) {
	const repository = "sagemaker-distribution"
	cache, err := CacheDir()
	if err != nil {
		return nil, nil, err
	}
	cpu, gpu, err := images.Demo(ctx, size)
	if err != nil {
		return nil, nil, err
	}
	r, err := StartRegistry(ctx, dir, RegistryOptions{})
	if err != nil {
		return nil, nil, err
	}
	var demos []DemoImage
	for _, of := range []struct {
		name string
		spec images.Spec
	}{{"cpu", cpu}, {"gpu", gpu}} {
		tag := "latest-" + of.name
		img, err := images.Build(ctx, cache, of.spec)
		if err == nil {
			err = img.Push(r, repository, tag)
		}
		if err != nil {
			return nil, nil, errors.Join(err, r.Close())
		}
		demos = append(demos, DemoImage{Image: img, Name: of.name, Reference: r.Ref(repository + ":" + tag)})
	}
	return r, demos, nil
}
