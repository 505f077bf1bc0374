// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// bbolt maps its file into memory and trusts it: a file that lost its tail
// kills the process with SIGBUS, a page that points back to itself makes it
// loop for ever. So the file is read once, with plain reads, before bbolt gets
// to see it. The format (version 2, in the byte order of the machine):
//
//	page    id u64, flags u16, count u16, overflow u32, then its elements
//	meta    magic, version, page size, flags u32; root page, root sequence,
//	        freelist page, page count, transaction, FNV-1a of all that u64
//	branch  count × (pos u32, key size u32, page u64), keys at element + pos
//	leaf    count × (flags, pos, key size, value size u32), key and value at element + pos
//	bucket  a leaf's value: root page, sequence u64; root page 0: a small leaf page follows
const (
	pageHeader   = 16
	elementSize  = 16
	bucketHeader = 16
	metaSize     = 64

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	flagBucket   = 0x01 // of a leaf's element

	boltMagic   = 0xED0CDAED
	boltVersion = 2

	noFreelist    = ^uint64(0)
	manyFreePages = 0xFFFF // a count that does not fit: it is the first element then
)

// boltFile is a bbolt file under inspection.
type boltFile struct {
	r        io.ReaderAt
	pageSize uint64
	pages    uint64 // in use or free; anything beyond was never written
	root     uint64
	freelist uint64
	txid     uint64
	seen     []bool // by page
}

// verifyBolt tells whether bbolt can be trusted with a file of that size. It
// checks that every page of the newest transaction is there, where it belongs,
// used once and in order; what the values mean is not its business.
func verifyBolt(r io.ReaderAt, size int64) error {
	f, err := newestMeta(r, size)
	if err != nil {
		return err
	}
	if f.pages > uint64(size)/f.pageSize {
		return fmt.Errorf("it is truncated: %d bytes are left of %d pages of %d bytes", size, f.pages, f.pageSize)
	}
	f.seen = make([]bool, f.pages)
	if err := f.tree(f.root, nil, nil); err != nil {
		return err
	}
	return f.free()
}

// newestMeta finds the meta page that bbolt would go by. One of the two may be
// broken: that is what is left of a commit during which the power went away.
func newestMeta(r io.ReaderAt, size int64) (*boltFile, error) {
	var best *boltFile
	at := []int64{0}
	for shift := range 15 { // page sizes of 1 KiB to 16 MiB
		at = append(at, 1024<<shift)
	}
	buf := make([]byte, pageHeader+metaSize)
	for _, off := range at {
		if off+int64(len(buf)) > size {
			break
		}
		if _, err := r.ReadAt(buf, off); err != nil {
			return nil, fmt.Errorf("read the page at byte %d: %w", off, err)
		}
		f := parseMeta(buf[pageHeader:])
		if f == nil || off != 0 && uint64(off) != f.pageSize {
			continue
		}
		f.r = r
		if best == nil || f.txid > best.txid {
			best = f
		}
	}
	switch {
	case size == 0:
		return nil, errors.New("it is empty")
	case best == nil:
		return nil, errors.New("it is not a bbolt file, or both of its meta pages are broken")
	case best.pages < 4:
		return nil, fmt.Errorf("it claims to have %d pages", best.pages)
	}
	return best, nil
}

func parseMeta(b []byte) *boltFile {
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSize-8])
	f := &boltFile{
		pageSize: uint64(u32(b[8:])),
		root:     u64(b[16:]),
		freelist: u64(b[32:]),
		pages:    u64(b[40:]),
		txid:     u64(b[48:]),
	}
	if u32(b) != boltMagic || u32(b[4:]) != boltVersion || u64(b[56:]) != sum.Sum64() ||
		f.pageSize < 1024 || f.pageSize > 16<<20 || f.pageSize&(f.pageSize-1) != 0 {
		return nil
	}
	return f
}

// page reads one page with its overflow, and marks it as used.
func (f *boltFile) page(id uint64) ([]byte, error) {
	if id < 2 || id >= f.pages {
		return nil, fmt.Errorf("page %d is referred to, but there are %d", id, f.pages)
	}
	head := make([]byte, pageHeader)
	if _, err := f.r.ReadAt(head, int64(id*f.pageSize)); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	n := uint64(u32(head[12:])) + 1
	if u64(head) != id || n > f.pages-id {
		return nil, fmt.Errorf("page %d does not look like a page", id)
	}
	for i := id; i < id+n; i++ {
		if f.seen[i] {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		f.seen[i] = true
	}
	b := make([]byte, n*f.pageSize)
	if _, err := f.r.ReadAt(b, int64(id*f.pageSize)); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	return b, nil
}

// tree checks the page and everything below it. Its keys are not smaller than
// from and smaller than to; nil stands for no bound.
func (f *boltFile) tree(id uint64, from, to []byte) error {
	b, err := f.page(id)
	if err != nil {
		return err
	}
	switch flags := u16(b[8:]); flags {
	case flagLeaf:
		if err := f.leaf(b, from, to, true); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		return nil
	case flagBranch:
		return f.branch(id, b, from, to)
	default:
		return fmt.Errorf("page %d is of an unknown sort (%#x)", id, flags)
	}
}

func (f *boltFile) branch(id uint64, b, from, to []byte) error {
	n := int(u16(b[10:]))
	if n == 0 || pageHeader+n*elementSize > len(b) {
		return fmt.Errorf("page %d claims to have %d branches", id, n)
	}
	keys, children := make([][]byte, n), make([]uint64, n)
	for i := range n {
		e := pageHeader + i*elementSize
		key, ok := cut(b, uint64(e)+uint64(u32(b[e:])), uint64(u32(b[e+4:])))
		if !ok {
			return fmt.Errorf("page %d: key %d is outside of it", id, i)
		}
		keys[i], children[i] = key, u64(b[e+8:])
	}
	if err := inOrder(keys, from, to); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	for i, child := range children {
		end := to
		if i+1 < n {
			end = keys[i+1]
		}
		if err := f.tree(child, keys[i], end); err != nil {
			return err
		}
	}
	return nil
}

// leaf checks keys and values; buckets may be among them, but not in a small
// leaf that is itself a bucket's value.
func (f *boltFile) leaf(b, from, to []byte, buckets bool) error {
	n := int(u16(b[10:]))
	if pageHeader+n*elementSize > len(b) {
		return fmt.Errorf("it claims to have %d entries", n)
	}
	keys := make([][]byte, n)
	for i := range n {
		e := pageHeader + i*elementSize
		flags, pos, ksize, vsize := u32(b[e:]), uint64(u32(b[e+4:])), uint64(u32(b[e+8:])), uint64(u32(b[e+12:]))
		key, ok := cut(b, uint64(e)+pos, ksize)
		value, ok2 := cut(b, uint64(e)+pos+ksize, vsize)
		if !ok || !ok2 || flags&^flagBucket != 0 {
			return fmt.Errorf("entry %d is not one", i)
		}
		keys[i] = key
		if flags&flagBucket == 0 {
			continue
		}
		if !buckets || len(value) < bucketHeader {
			return fmt.Errorf("entry %d is not a bucket", i)
		}
		if err := f.bucket(value); err != nil {
			return fmt.Errorf("bucket %q: %w", key, err)
		}
	}
	return inOrder(keys, from, to)
}

func (f *boltFile) bucket(value []byte) error {
	if root := u64(value); root != 0 {
		return f.tree(root, nil, nil)
	}
	small := value[bucketHeader:]
	if len(small) < pageHeader || u16(small[8:]) != flagLeaf {
		return errors.New("its content is missing")
	}
	return f.leaf(small, nil, nil, false)
}

// free checks the list of free pages: bbolt will write over them.
func (f *boltFile) free() error {
	if f.freelist == noFreelist {
		return nil
	}
	b, err := f.page(f.freelist)
	if err != nil {
		return err
	}
	n, ids := uint64(u16(b[10:])), b[pageHeader:]
	if n == manyFreePages {
		n, ids = u64(ids), ids[8:]
	}
	if u16(b[8:]) != flagFreelist || n > uint64(len(ids))/8 {
		return fmt.Errorf("page %d is not a list of free pages", f.freelist)
	}
	for i := range n {
		id := u64(ids[i*8:])
		if id < 2 || id >= f.pages || f.seen[id] {
			return fmt.Errorf("page %d is listed as free, but is not", id)
		}
		f.seen[id] = true
	}
	return nil
}

// inOrder checks that the keys grow and lie within the bounds.
func inOrder(keys [][]byte, from, to []byte) error {
	for i, k := range keys {
		switch {
		case len(k) == 0,
			i == 0 && from != nil && bytes.Compare(k, from) < 0,
			i > 0 && bytes.Compare(k, keys[i-1]) <= 0,
			to != nil && bytes.Compare(k, to) >= 0:
			return fmt.Errorf("key %d is out of order", i)
		}
	}
	return nil
}

func cut(b []byte, at, n uint64) ([]byte, bool) {
	if at > uint64(len(b)) || n > uint64(len(b))-at {
		return nil, false
	}
	return b[at : at+n : at+n], true
}

func u16(b []byte) uint16 { return binary.NativeEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
func u64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
