package config

import (
	"context"
	"crypto/sha256"
	"time"
)

// DefaultWatchInterval is the time between two looks at the file. The kubelet itself brings changes of a ConfigMap up to
// a minute late.
const DefaultWatchInterval = 2 * time.Second

// Update is what a file says after it has changed.
type Update struct {
	// Configuration is nil where Err is set: the one from before stays in force.
	Configuration *Configuration
	// Err says why the file cannot be used: Errors, or that it cannot be read.
	Err error
	// Generation counts the contents seen, 1 for the first; a consumer that is slow may miss some.
	Generation int64
}

// Watch reports the file at path at once, and then each time it says something else, until ctx ends and the channel
// closes. An interval of 0 means DefaultWatchInterval. A consumer that is late gets the newest state only.
//
// It looks at the content, through whatever links lead to it, because that is what stays the same when the kubelet
// swaps the link ..data of a ConfigMap volume (kubelet/pkg/volume/util/atomic_writer.go). A change counts once two looks
// in a row have seen it, so that neither a file caught while it is being written nor the blink of a swap is taken for one.
func Watch(ctx context.Context, path string, interval time.Duration) <-chan Update {
	if interval <= 0 {
		interval = DefaultWatchInterval
	}
	updates := make(chan Update)
	go func() {
		defer close(updates)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		now := look(path)
		reported, before := now.state, now.state
		pending, out := now.update(path, 1), updates
		for {
			select {
			case <-ctx.Done():
				return
			case out <- pending:
				out = nil // a nil channel is never ready: nothing to tell until the next change
			case <-ticker.C:
				now := look(path)
				if now.state != reported && now.state == before {
					reported = now.state
					pending, out = now.update(path, pending.Generation+1), updates
				}
				before = now.state
			}
		}
	}()
	return updates
}

// sight is what a look at a file found: its content, or why it cannot be read. state tells two of them apart.
type sight struct {
	state string
	data  []byte
	err   error
}

func look(path string) sight {
	data, err := read(path)
	if err != nil {
		return sight{state: "error: " + err.Error(), err: err}
	}
	sum := sha256.Sum256(data)
	return sight{state: "content: " + string(sum[:]), data: data}
}

func (s sight) update(path string, generation int64) Update {
	if s.err != nil {
		return Update{Err: s.err, Generation: generation}
	}
	configuration, err := Parse(path, s.data)
	return Update{Configuration: configuration, Err: err, Generation: generation}
}
