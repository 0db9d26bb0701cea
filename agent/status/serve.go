package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// limits bound what a client can make the server wait for and keep.
type limits struct {
	header, read, write, idle, shutdown time.Duration
}

func defaultLimits() limits {
	return limits{header: 5 * time.Second, read: 10 * time.Second, write: 30 * time.Second, idle: time.Minute, shutdown: 5 * time.Second}
}

// maxHeader bounds the headers of a request, in bytes (net/http adds 4 KiB of its own).
const maxHeader = 8 << 10

// Serve answers HTTP requests on the listener until ctx ends; then it ends the streams of /v1/watch and lets the other
// answers finish. It closes the listener. The error is nil when ctx ended.
func Serve(ctx context.Context, listener net.Listener, h http.Handler, log *slog.Logger) error {
	return serve(ctx, listener, h, log, defaultLimits())
}

func serve(ctx context.Context, listener net.Listener, h http.Handler, log *slog.Logger, l limits) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: l.header,
		ReadTimeout:       l.read,
		WriteTimeout:      l.write, // a stream sets it anew for every event
		IdleTimeout:       l.idle,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // tells of clients' faults
		// Requests end with ctx: a stream would otherwise never let the server end.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("HTTP server at %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.shutdown)
	defer cancel()
	err := server.Shutdown(patient)
	if errors.Is(err, context.DeadlineExceeded) { // some client does not read: not our failure
		log.InfoContext(ctx, "clients did not take their answers in time", "address", listener.Addr().String())
		err = server.Close()
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("HTTP server at %s: %w", listener.Addr(), err)
	}
	return nil
}
