package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Lock makes this the only agent that works with the runtime on this node, until Close or the end of the process: two with
// different configurations would each let go of what the other keeps. The error is of ReasonAnotherAgent while there is another.
//
// The lock is on the folder of the runtime's socket, which every agent of a node must have, and of which nothing is written.
// Where it cannot be locked, as on a file system without locks, that is logged and no error.
func (r *Runtime) Lock() error {
	folder := filepath.Dir(address(r.info.Endpoint))
	f, err := os.Open(folder)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return errors.Join(&Error{
			Reason: ReasonAnotherAgent, Noun: "folder " + folder, Err: errors.New("another agent works with this runtime"),
			Remedy: "this one begins when the other has ended; run one agent on a node",
		}, f.Close())
	case err != nil:
		r.log.Warn("cannot make sure that no other agent works with this runtime", "folder", folder, "error", err)
		if f != nil {
			return f.Close()
		}
		return nil
	}
	r.lock = f
	return nil
}

// unlock lets another agent begin.
func (r *Runtime) unlock() error {
	if r.lock == nil {
		return nil
	}
	if err := r.lock.Close(); err != nil {
		return fmt.Errorf("lock of the runtime: %w", err)
	}
	return nil
}
