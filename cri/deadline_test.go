package cri

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Of a runtime that hangs every call ends with the reason that it does not answer, but for those that rightly take long; and
// whoever gives up earlier is told that he did.
func TestACallWithoutAnswerEnds(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	call := bounded(callTimeout)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := call(t.Context(), "/runtime.v1.ImageService/ImageStatus", nil, nil, nil, hangs)
		if runtimeReason(err) != ReasonRuntimeUnavailable || time.Since(began) != callTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		for _, method := range []string{"/runtime.v1.ImageService/ImageStatus", "/runtime.v1.ImageService/PullImage"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := call(ctx, method, nil, nil, nil, hangs); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("%s, given up after a second: %v", method, err)
			}
			cancel()
		}
		slow := errors.New("an hour later")
		err = call(t.Context(), "/runtime.v1.ImageService/PullImage", nil, nil, nil,
			func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
				time.Sleep(time.Hour) // in a bubble
				return errors.Join(slow, ctx.Err())
			})
		if !errors.Is(err, slow) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a pull of an hour: %v", err)
		}
	})
}
