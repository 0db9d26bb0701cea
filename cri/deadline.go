package cri

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callTimeout is how long a runtime may take for an answer, where nothing has to be fetched, unpacked or collected for it. A
// runtime under load takes milliseconds, on a slow disk a few seconds; one that hangs never answers, and its socket stays open.
const callTimeout = 30 * time.Second

// slowMethods are the ends of the names of calls that may rightly take long; who makes them bounds them.
func slowMethods() []string {
	return []string{"/PullImage", "/RemoveImage", "leases.v1.Leases/Delete"}
}

// bounded ends a call that gets no answer, with an error that says that the runtime does not answer: gRPC's own keepalive
// pings would be refused by containerd, which takes one in five minutes.
func bounded(timeout time.Duration) grpc.UnaryClientInterceptor {
	slow := slowMethods()
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		for _, end := range slow {
			if strings.HasSuffix(method, end) {
				return invoke(ctx, method, req, reply, cc, o...)
			}
		}
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := invoke(limited, method, req, reply, cc, o...)
		if err != nil && ctx.Err() == nil && limited.Err() != nil {
			return status.Errorf(codes.Unavailable, "no answer to %s within %v: does the runtime hang?", method, timeout)
		}
		return err
	}
}
