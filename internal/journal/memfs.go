package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// MemFS is a file system in memory that can lose power, fill up and fail. It
// keeps apart what a program sees and what would be there after a power cut:
// contents become durable by Datasync, directory entries by SyncDir of their
// directory. It serves tests, and logs that need no disk.
//
// The zero value is ready. Paths are cleaned; the parents of Config.Dir exist.
type MemFS struct {
	// Before is called before each operation, if it is set, from the goroutine
	// that wants it. It may block. An error makes the operation fail, as meanly
	// as a disk may: half of a write is done, and what a failed Datasync was to
	// make durable never will be.
	Before func(Op) error
	// Limit bounds the bytes of all files, when it is not zero: writes beyond
	// it fail with ENOSPC. Change it with SetLimit while the log runs.
	Limit int64

	mu    sync.Mutex
	cut   int  // ends of the process so far; older handles are dead
	off   bool // from an end of the process until Start
	live  map[string]*memNode
	safe  map[string]*memNode
	locks map[string]bool
}

// Op is one operation as Before sees it.
type Op struct {
	Name string // create, open, write, datasync, truncate, rename, remove, syncdir, mkdir, list, read, lock
	Path string
	To   string // of rename
	Off  int64  // of write and read, and the size of truncate
	Size int    // of write and read
}

// Changes says whether the operation can change what is on the disk, or what
// of it is durable.
func (o Op) Changes() bool {
	switch o.Name {
	case "open", "list", "read", "lock":
		return false
	}
	return true
}

func (o Op) String() string {
	switch o.Name {
	case "write", "read":
		return fmt.Sprintf("%s %s %d+%d", o.Name, o.Path, o.Off, o.Size)
	case "truncate":
		return fmt.Sprintf("truncate %s %d", o.Path, o.Off)
	case "rename":
		return fmt.Sprintf("rename %s %s", o.Path, o.To)
	}
	return o.Name + " " + o.Path
}

type memNode struct {
	dir    bool
	data   []byte  // as programs see it
	synced []byte  // as it is after a power cut
	dirty  []memOp // what makes the difference, in order
}

// memOp is a write, or a truncation when data is nil.
type memOp struct {
	off  int64
	data []byte
}

func (op memOp) apply(b []byte) []byte {
	if op.data == nil {
		return grow(b, op.off)[:op.off]
	}
	b = grow(b, max(int64(len(b)), op.off+int64(len(op.data))))
	copy(b[op.off:], op.data)
	return b
}

func grow(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

var errDead = errors.New("the process that opened this file is dead")

// begin asks Before and takes the lock.
func (m *MemFS) begin(op Op) (err error) {
	if m.Before != nil {
		err = m.Before(op)
	}
	m.mu.Lock()
	if m.off {
		err = errDead
	}
	if m.live == nil {
		m.live, m.safe, m.locks = map[string]*memNode{}, map[string]*memNode{}, map[string]bool{}
	}
	return err
}

func pathError(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// SetLimit changes Limit.
func (m *MemFS) SetLimit(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Limit = n
}

// Kill ends all handles and locks, as the end of a process does. What was
// written stays, durable or not. Every operation fails from now on, so that what
// is left of the dead process can do no harm, until Start.
func (m *MemFS) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = true
	m.cut++
	m.locks = map[string]bool{}
}

// Start lets the next process work.
func (m *MemFS) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = false
}

// PowerCut is Kill, and drops what was not durable. With a
// source of randomness, each file and directory may keep more than it must: a
// file any sectors of any writes that were not synced, a directory its latest
// entries.
func (m *MemFS) PowerCut(rng *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = true
	m.cut++
	m.locks = map[string]bool{}
	paths := make([]string, 0, len(m.live)+len(m.safe))
	for path := range m.live {
		paths = append(paths, path)
	}
	for path := range m.safe {
		if m.live[path] == nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths) // parents come before what is in them
	keeps := map[string]bool{}
	next := map[string]*memNode{}
	for _, path := range paths {
		dir := filepath.Dir(path)
		keep, decided := keeps[dir]
		if !decided {
			keep = rng != nil && rng.IntN(2) == 0
			keeps[dir] = keep
		}
		node := m.safe[path]
		if keep {
			node = m.live[path]
		}
		if node != nil && (m.known(dir) == nil || next[dir] != nil) {
			next[path] = node
		}
	}
	m.live = next
	m.safe = map[string]*memNode{}
	for path, node := range next {
		node.lose(rng)
		m.safe[path] = node
	}
}

// known finds a directory that some entry names; the roots have none.
func (m *MemFS) known(dir string) *memNode {
	if n := m.live[dir]; n != nil {
		return n
	}
	return m.safe[dir]
}

// lose makes the node what a power cut leaves of it.
func (n *memNode) lose(rng *rand.Rand) {
	b := n.synced
	mode := 0 // nothing more, everything, any sectors
	if rng != nil {
		mode = rng.IntN(3)
	}
	for _, op := range n.dirty {
		switch {
		case mode == 1 || mode == 2 && op.data == nil && rng.IntN(2) == 0:
			b = op.apply(b)
		case mode == 2 && op.data != nil:
			const sector = 512
			for from := 0; from < len(op.data); {
				to := min(len(op.data), from+sector-int((op.off+int64(from))%sector))
				if rng.IntN(2) == 0 {
					b = memOp{op.off + int64(from), op.data[from:to]}.apply(b)
				}
				from = to
			}
		}
	}
	n.synced = slices.Clone(b)
	n.data = slices.Clone(b)
	n.dirty = nil
}

// Corrupt turns the bits of one byte of a file around, durably.
func (m *MemFS) Corrupt(path string, at int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.live[filepath.Clean(path)]
	if n == nil || at >= len(n.data) {
		return pathError("corrupt", path, fs.ErrNotExist)
	}
	n.data[at] ^= 0xff
	if at < len(n.synced) {
		n.synced[at] ^= 0xff
	}
	return nil
}

// Files lists all files with their sizes.
func (m *MemFS) Files() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := map[string]int{}
	for path, n := range m.live {
		if !n.dir {
			files[path] = len(n.data)
		}
	}
	return files
}

// MkdirAll makes a directory and its parents.
func (m *MemFS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	err := m.begin(Op{Name: "mkdir", Path: dir})
	defer m.mu.Unlock()
	if err != nil {
		return pathError("mkdir", dir, err)
	}
	for ; dir != "." && dir != string(filepath.Separator); dir = filepath.Dir(dir) {
		if n := m.live[dir]; n == nil {
			m.live[dir] = &memNode{dir: true}
		} else if !n.dir {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
	}
	return nil
}

// List gives the entries of a directory by name.
func (m *MemFS) List(dir string) ([]Info, error) {
	dir = filepath.Clean(dir)
	err := m.begin(Op{Name: "list", Path: dir})
	defer m.mu.Unlock()
	if err != nil {
		return nil, pathError("list", dir, err)
	}
	if n := m.live[dir]; n == nil || !n.dir {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	var infos []Info
	for path, n := range m.live {
		if filepath.Dir(path) == dir {
			infos = append(infos, Info{Name: filepath.Base(path), Size: int64(len(n.data)), Dir: n.dir})
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

// Create makes or empties a file.
func (m *MemFS) Create(name string) (File, error) {
	name = filepath.Clean(name)
	err := m.begin(Op{Name: "create", Path: name})
	defer m.mu.Unlock()
	if err != nil {
		return nil, pathError("create", name, err)
	}
	if dir := m.live[filepath.Dir(name)]; dir == nil || !dir.dir {
		return nil, pathError("create", name, fs.ErrNotExist)
	}
	n := m.live[name]
	if n == nil {
		n = &memNode{}
		m.live[name] = n
	} else {
		n.change(memOp{})
	}
	return &memFile{m, n, name, m.cut}, nil
}

// Open opens a file that is there.
func (m *MemFS) Open(name string) (File, error) {
	name = filepath.Clean(name)
	err := m.begin(Op{Name: "open", Path: name})
	defer m.mu.Unlock()
	if err != nil {
		return nil, pathError("open", name, err)
	}
	n := m.live[name]
	if n == nil || n.dir {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	return &memFile{m, n, name, m.cut}, nil
}

// Rename replaces to by from.
func (m *MemFS) Rename(from, to string) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	err := m.begin(Op{Name: "rename", Path: from, To: to})
	defer m.mu.Unlock()
	if err != nil {
		return pathError("rename", from, err)
	}
	n := m.live[from]
	if n == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	delete(m.live, from)
	m.live[to] = n
	return nil
}

// Remove takes away a file or an empty directory.
func (m *MemFS) Remove(name string) error {
	name = filepath.Clean(name)
	err := m.begin(Op{Name: "remove", Path: name})
	defer m.mu.Unlock()
	if err != nil {
		return pathError("remove", name, err)
	}
	if m.live[name] == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	for path := range m.live {
		if filepath.Dir(path) == name {
			return pathError("remove", name, syscall.ENOTEMPTY)
		}
	}
	delete(m.live, name)
	return nil
}

// SyncDir makes the entries of a directory durable.
func (m *MemFS) SyncDir(dir string) error {
	dir = filepath.Clean(dir)
	err := m.begin(Op{Name: "syncdir", Path: dir})
	defer m.mu.Unlock()
	if err != nil {
		return pathError("syncdir", dir, err)
	}
	for path := range m.safe {
		// What was in a directory that is gone went with it, synced or not.
		if up := filepath.Dir(path); up == dir && m.live[path] == nil || filepath.Dir(up) == dir && m.live[up] == nil {
			delete(m.safe, path)
		}
	}
	for path, n := range m.live {
		if filepath.Dir(path) == dir {
			m.safe[path] = n
		}
	}
	return nil
}

// Lock takes a lock that a power cut frees.
func (m *MemFS) Lock(name string) (io.Closer, error) {
	name = filepath.Clean(name)
	err := m.begin(Op{Name: "lock", Path: name})
	defer m.mu.Unlock()
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	if m.locks[name] {
		return nil, fmt.Errorf("%w: %s", ErrLocked, name)
	}
	m.locks[name] = true
	return memLock{m, name, m.cut}, nil
}

type memLock struct {
	m    *MemFS
	name string
	cut  int
}

func (l memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.cut == l.m.cut {
		delete(l.m.locks, l.name)
	}
	return nil
}

// change does what programs see at once.
func (n *memNode) change(op memOp) {
	n.data = op.apply(n.data)
	n.dirty = append(n.dirty, op)
}

type memFile struct {
	m    *MemFS
	n    *memNode
	name string
	cut  int
}

func (f *memFile) begin(op Op) error {
	op.Path = f.name
	err := f.m.begin(op)
	if f.cut != f.m.cut {
		err = errDead
	}
	if err != nil {
		return pathError(op.Name, f.name, err)
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	err := f.begin(Op{Name: "read", Off: off, Size: len(p)})
	defer f.m.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteVec(off int64, bufs ...[]byte) error {
	b := slices.Concat(bufs...)
	err := f.begin(Op{Name: "write", Off: off, Size: len(b)})
	defer f.m.mu.Unlock()
	if f.cut != f.m.cut || errors.Is(err, errDead) {
		return err
	}
	if err != nil {
		b = b[:len(b)/2]
	}
	if f.m.Limit > 0 {
		used := int64(0)
		for _, n := range f.m.live {
			used += int64(len(n.data))
		}
		if more := off + int64(len(b)) - int64(len(f.n.data)); more > 0 && used+more > f.m.Limit {
			b = b[:max(0, int64(len(b))-(used+more-f.m.Limit))]
			err = pathError("write", f.name, syscall.ENOSPC)
		}
	}
	if len(b) > 0 {
		f.n.change(memOp{off, b})
	}
	return err
}

func (f *memFile) Datasync() error {
	err := f.begin(Op{Name: "datasync"})
	defer f.m.mu.Unlock()
	if f.cut != f.m.cut || errors.Is(err, errDead) {
		return err
	}
	if err == nil {
		for _, op := range f.n.dirty {
			f.n.synced = op.apply(f.n.synced)
		}
	}
	f.n.dirty = nil
	return err
}

func (f *memFile) Truncate(size int64) error {
	err := f.begin(Op{Name: "truncate", Off: size})
	defer f.m.mu.Unlock()
	if err != nil {
		return err
	}
	f.n.change(memOp{off: size})
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.cut != f.m.cut {
		return 0, pathError("size", f.name, errDead)
	}
	return int64(len(f.n.data)), nil
}

func (f *memFile) Close() error { return nil }
