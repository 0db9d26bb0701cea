package images

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Tree is the files and symbolic links of real folders, in the order of their names, folder after folder. In the image the
// files have the path that they have on the machine. What is neither file nor link, and what cannot be read, is left out.
//
// Skip and Limit cut a part out of all their bytes, so that several layers can be made of different parts of one folder:
// a part has the files that begin behind the first Skip bytes, and ends before it has more than Limit bytes. Where there
// are fewer bytes, the part is smaller.
type Tree struct {
	Dirs        []string
	Skip, Limit int64
	// Largest leaves out larger files, also from the count of the bytes; 0 for none. Parts of at least this size are
	// never empty while there are files left.
	Largest int64
}

// entry is a file or a link of a tree.
type entry struct {
	path   string
	info   fs.FileInfo
	target string
}

// identify takes a file for unchanged as long as its size and its time are.
func (t Tree) identify(w io.Writer) error {
	return t.walk(func(e entry) error {
		_, err := fmt.Fprintf(w, "%q %q %o %d %d\n", e.path, e.target, e.info.Mode(), e.info.Size(), e.info.ModTime().UnixNano())
		return err
	})
}

func (t Tree) write(ctx context.Context, w *writer) error {
	return t.walk(func(e entry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.target != "" {
			return w.link(e.path, e.target)
		}
		f, err := os.Open(e.path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		return w.file(e.path, int64(e.info.Mode().Perm()), e.info.Size(), f)
	})
}

// size is how many bytes there are, of as many as the limit.
func (t Tree) size() (sum int64, err error) {
	err = t.walk(func(e entry) error {
		sum += e.info.Size()
		return nil
	})
	return sum, err
}

// walk visits what is in the tree.
func (t Tree) walk(visit func(entry) error) error {
	largest := t.Largest
	if largest == 0 {
		largest = math.MaxInt64
	}
	var seen, taken int64
	for _, dir := range t.Dirs {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				if name == dir {
					return err
				}
				return nil // what cannot be read is left out
			}
			e, ok := read(name, d, largest)
			if !ok {
				return nil
			}
			size := e.info.Size()
			if seen += size; seen-size < t.Skip {
				return nil
			}
			if taken += size; taken > t.Limit {
				return fs.SkipAll
			}
			return visit(e)
		})
		if err != nil {
			return fmt.Errorf("files of %s: %w", dir, err)
		}
		if taken > t.Limit {
			return nil
		}
	}
	return nil
}

// read says what an entry of a folder is, and whether it can be in a layer: files whose name means a removal there
// (image-spec, layer.md, whiteouts) cannot.
func read(name string, d fs.DirEntry, largest int64) (entry, bool) {
	info, err := d.Info()
	if err != nil || strings.HasPrefix(path.Base(name), ".wh.") {
		return entry{}, false
	}
	e := entry{path: name, info: info}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		e.target, err = os.Readlink(name)
		return e, err == nil
	case info.Mode().IsRegular() && info.Size() <= largest:
		f, err := os.Open(name)
		if err != nil {
			return e, false
		}
		return e, f.Close() == nil
	default:
		return e, false
	}
}
