package cri

import (
	"context"
	"io"
	"net"
	"time"
)

// What a client of HTTP/2 says first, and how many bytes a frame's head has, with its type in the fourth (RFC 9113,
// sections 3.4, 4.1 and 6.5).
const (
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	frameHead     = 9
	frameType     = 3
	frameSettings = 0x04
)

// speaksOther reports whether what listens on a socket answers a client of gRPC with something that is no HTTP/2. gRPC
// itself says that only when it reads the answer before it notices that its next words are not wanted.
func speaksOther(ctx context.Context, path string) bool {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // nothing was to be kept
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return false
	}
	if _, err := io.WriteString(conn, preface); err != nil {
		return false
	}
	head := make([]byte, frameHead)
	n, _ := io.ReadFull(conn, head) // what came tells enough
	return n > frameType && head[frameType] != frameSettings
}
