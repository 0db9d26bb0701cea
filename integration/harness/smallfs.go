package harness

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// SmallFS makes a folder on a file system of its own, in memory, that holds so many bytes in so many files. It is gone when
// the test ends.
func SmallFS(t T, bytes, files int64) string {
	t.Helper()
	dir := Dir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=%d", bytes, files)); err != nil {
		t.Fatalf("small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("small file system at %s: %v", dir, err)
		}
	})
	return dir
}
