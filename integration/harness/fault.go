package harness

import (
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Fault changes how a request is answered: it wraps the handler that would answer it. Those below are the usual ones and
// can be put together; a test that wants something else writes a function of its own.
type Fault func(next http.Handler) http.Handler

// Before calls a function before the request is answered; it may block, and may look at the request.
func Before(f func(*http.Request)) Fault {
	return handle(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		f(req)
		next.ServeHTTP(w, req)
	})
}

// Latency waits before the request is answered.
func Latency(d time.Duration) Fault {
	return handle(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			next.ServeHTTP(w, req)
		case <-req.Context().Done():
		}
	})
}

// Hold waits before the request is answered until release is closed; with a nil channel until the client goes away.
func Hold(release <-chan struct{}) Fault {
	return handle(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		select {
		case <-release:
			next.ServeHTTP(w, req)
		case <-req.Context().Done():
		}
	})
}

// Status answers with a status code and an error body instead; headers are names and values in turn, such as
// "Retry-After", "2".
func Status(code int, headers ...string) Fault {
	return handle(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		writeError(w, code, errorCode(code), http.StatusText(code))
	})
}

// errorCode is the code that the OCI distribution specification has for a status.
func errorCode(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHORIZED"
	case http.StatusForbidden:
		return "DENIED"
	case http.StatusNotFound:
		return "NAME_UNKNOWN"
	case http.StatusTooManyRequests:
		return "TOOMANYREQUESTS"
	default:
		return "UNKNOWN"
	}
}

// Redirect sends the client to the same path and query on another server, with 307, as registries do with blobs.
func Redirect(base string) Fault {
	return handle(func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		http.Redirect(w, req, strings.TrimRight(base, "/")+req.URL.RequestURI(), http.StatusTemporaryRedirect)
	})
}

// BasicAuth answers 401 to those who do not give this name and password.
func BasicAuth(user, password string) Fault {
	return handle(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		u, p, _ := req.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(u+"\x00"+p), []byte(user+"\x00"+password)) == 1 {
			next.ServeHTTP(w, req)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	})
}

// IgnoreRange answers with the whole blob and 200 where a range was asked for.
func IgnoreRange() Fault {
	return handle(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		req = req.Clone(req.Context())
		req.Header.Del("Range")
		next.ServeHTTP(w, req)
	})
}

// RefuseRange answers 416 where a range is asked for.
func RefuseRange() Fault {
	return handle(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Header.Get("Range") == "" {
			next.ServeHTTP(w, req)
			return
		}
		writeError(w, http.StatusRequestedRangeNotSatisfiable, "UNSUPPORTED", "no ranges here")
	})
}

// NoLength answers without a Content-Length.
func NoLength() Fault {
	return writing(func(w http.ResponseWriter, _ *http.Request) bodyWriter {
		return bodyWriter{header: func(int) { w.Header().Del("Content-Length") }, write: w.Write}
	})
}

// Rate sends at most so many bytes of body a second. Requests on one connection follow each other, so this is a limit for
// each connection.
func Rate(bytesPerSecond int) Fault {
	return writing(func(w http.ResponseWriter, req *http.Request) bodyWriter {
		// Fifty parts a second are smooth enough for who watches, and few enough to be cheap.
		part := max(1, min(bytesPerSecond/50, 256<<10))
		limit := rate.NewLimiter(rate.Limit(bytesPerSecond), part)
		return bodyWriter{write: func(p []byte) (int, error) {
			return inParts(p, part, func(p []byte) (int, error) {
				if err := limit.WaitN(req.Context(), len(p)); err != nil {
					return 0, err
				}
				n, err := w.Write(p)
				flush(w)
				return n, err
			})
		}}
	})
}

// Corrupt flips the bits of the byte at an offset of the body (0 is its first byte), so that the digest is wrong.
func Corrupt(offset int64) Fault {
	return writing(func(w http.ResponseWriter, _ *http.Request) bodyWriter {
		var sent int64
		return bodyWriter{write: func(p []byte) (int, error) {
			if i := offset - sent; i >= 0 && i < int64(len(p)) {
				p = slices.Clone(p)
				p[i] = ^p[i]
			}
			n, err := w.Write(p)
			sent += int64(n)
			return n, err
		}}
	})
}

// Stall stops sending after so many bytes of body and keeps the connection open: until release is closed, or with a nil
// channel until the client goes away.
func Stall(after int64, release <-chan struct{}) Fault {
	return at(after, func(w http.ResponseWriter, req *http.Request, p []byte) (int, error) {
		flush(w)
		select {
		case <-release:
			return w.Write(p)
		case <-req.Context().Done():
			return 0, req.Context().Err()
		}
	})
}

// Cut closes the connection after so many bytes of body: the client gets all of them, and then an unexpected end.
func Cut(after int64) Fault {
	return at(after, func(w http.ResponseWriter, _ *http.Request, _ []byte) (int, error) {
		return 0, hangUp(w, false)
	})
}

// Reset resets the connection after so many bytes of body, of which the client may miss the last.
func Reset(after int64) Fault {
	return at(after, func(w http.ResponseWriter, _ *http.Request, _ []byte) (int, error) {
		return 0, hangUp(w, true)
	})
}

// handle makes a fault of a function.
func handle(f func(http.ResponseWriter, *http.Request, http.Handler)) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { f(w, req, next) })
	}
}
