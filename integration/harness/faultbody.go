package harness

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
)

// bodyWriter replaces parts of how an answer is written; nil functions change nothing.
type bodyWriter struct {
	// header is called before the header is written.
	header func(status int)
	write  func(p []byte) (int, error)
}

// writing makes a fault that writes the body in another way.
func writing(wrap func(http.ResponseWriter, *http.Request) bodyWriter) Fault {
	return handle(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		next.ServeHTTP(&faultyWriter{ResponseWriter: w, body: wrap(w, req)}, req)
	})
}

// at makes a fault that does something at an offset of the body, once: what comes before is written as it is, and f gets
// what comes from there on in the same piece. An answer with a shorter body ends undisturbed. So that an offset of 0 and
// one at the very end count too, the fault happens as soon as the offset is reached, with an empty piece.
func at(offset int64, f func(http.ResponseWriter, *http.Request, []byte) (int, error)) Fault {
	return writing(func(w http.ResponseWriter, req *http.Request) bodyWriter {
		var sent int64
		done := false
		return bodyWriter{write: func(p []byte) (int, error) {
			if done || sent+int64(len(p)) < offset {
				n, err := w.Write(p)
				sent += int64(n)
				return n, err
			}
			before := p[:offset-sent]
			n, err := w.Write(before)
			sent += int64(n)
			if err != nil {
				return n, err
			}
			done = true
			m, err := f(w, req, p[n:])
			sent += int64(m)
			return n + m, err
		}}
	})
}

// faultyWriter writes an answer in another way. It has no ReadFrom on purpose: everything goes through Write.
type faultyWriter struct {
	http.ResponseWriter

	body   bodyWriter
	header bool
}

// Unwrap is how http.ResponseController finds the connection.
func (w *faultyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *faultyWriter) WriteHeader(status int) {
	if !w.header && w.body.header != nil {
		w.body.header(status)
	}
	w.header = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	if !w.header {
		w.WriteHeader(http.StatusOK)
	}
	return w.body.write(p)
}

// inParts writes p in parts of at most size bytes.
func inParts(p []byte, size int, write func([]byte) (int, error)) (int, error) {
	sum := 0
	for len(p) > 0 {
		n, err := write(p[:min(size, len(p))])
		sum += n
		if err != nil {
			return sum, err
		}
		p = p[n:]
	}
	return sum, nil
}

// flush sends what the server has buffered; an error shows at the next write.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// errHungUp ends the handler whose connection was closed.
var errHungUp = errors.New("the connection was closed by a fault")

// hangUp sends what was written and closes the connection in the middle of the answer; with a reset, the kernel drops
// what the client has not got yet and tells it so.
func hangUp(w http.ResponseWriter, reset bool) error {
	flush(w)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	raw := conn
	if t, ok := conn.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	if tcp, ok := raw.(*net.TCPConn); ok && reset {
		err = tcp.SetLinger(0)
	}
	return errors.Join(errHungUp, err, raw.Close())
}
