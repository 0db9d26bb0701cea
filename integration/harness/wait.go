package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

const (
	// pollInterval is how often something is asked that has no event.
	pollInterval = 20 * time.Millisecond
	// firstPort and lastPort lie below the range of ports that Linux gives to outgoing connections, so that a component
	// which is away for a while finds its port free when it is back (net.ipv4.ip_local_port_range).
	firstPort, lastPort = 20000, 32000
)

// Poll asks until probe gives no error, and fails with the last error when ctx ends. Every try has ctx for its deadline.
func Poll(ctx context.Context, probe func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// FreePort finds a TCP port on the loopback interface on which nothing listens.
func FreePort(ctx context.Context) (int, error) {
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", loopback(port))
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("no free port from %d to %d: %w", firstPort, lastPort, last)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
