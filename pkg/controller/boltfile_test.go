// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"agentd/pkg/apis"
)

// boltBytes returns a bbolt file with branches, overflow pages, buckets in
// buckets and free pages.
func boltBytes(t testing.TB, pageSize int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bolt")
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: pageSize})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		if err := db.Update(func(tx *bolt.Tx) error {
			for _, name := range []string{"big", "small", "other"} {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				for i := range map[string]int{"big": 120, "small": 1, "other": 12}[name] {
					if err := b.Put(fmt.Appendf(nil, "key-%03d", i), bytes.Repeat([]byte{byte(i)}, 20+(i*round*7919)%3000)); err != nil {
						return err
					}
				}
			}
			b, err := tx.Bucket([]byte("big")).CreateBucketIfNotExists([]byte("inner"))
			if err != nil {
				return err
			}
			return b.Put([]byte("k"), []byte("v"))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func verifyBytes(data []byte) error { return verifyBolt(bytes.NewReader(data), int64(len(data))) }

func TestVerifyAcceptsWhatBoltWrites(t *testing.T) {
	for _, size := range []int{1024, 4096, 16384, 65536} {
		data := boltBytes(t, size)
		if err := verifyBytes(data); err != nil {
			t.Errorf("page size %d: %v", size, err)
		}
		for broken := range 2 { // one of the meta pages
			torn := bytes.Clone(data)
			torn[broken*size+pageHeader+20] ^= 1
			if err := verifyBytes(torn); err != nil {
				t.Errorf("page size %d, meta page %d broken: %v", size, broken, err)
			}
		}
	}
}

// TestVerifyProtectsBolt breaks files at random: whatever passes, bbolt must
// be able to read and to write without a fault, a panic or an endless loop.
func TestVerifyProtectsBolt(t *testing.T) {
	data := boltBytes(t, 4096)
	rng := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "checkpoint")
	passed := 0
	for round := range 300 {
		broken := bytes.Clone(data)
		for range 1 + rng.IntN(4) {
			page := rng.IntN(len(data) / 4096)
			at := page*4096 + rng.IntN(4096)
			if rng.IntN(2) == 0 { // headers and elements are where it hurts
				at = page*4096 + rng.IntN(128)
			}
			broken[at] = byte(rng.Uint32())
		}
		if verifyBytes(broken) != nil {
			continue
		}
		passed++
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := useAll(path); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	t.Logf("%d of 300 broken files passed", passed)
	if passed == 0 {
		t.Error("nothing passed: the test tests nothing")
	}
}

func useAll(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	c := &Checkpoint{path: path, file: f}
	defer func() { _ = c.Close() }()
	if err := c.guard(func() error { return c.open(f, CheckpointOptions{}) }); err != nil {
		return err
	}
	all, err := c.read()
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Data = append(all[i].Data, "more"...)
	}
	return c.Save(append(all, Change{Key: apis.Key{Kind: "new", Name: "n"}, Data: []byte("x")}))
}

func FuzzVerifyBolt(f *testing.F) {
	data := boltBytes(f, 1024)
	f.Add(0, []byte{})
	f.Add(16, []byte("not bolt"))
	f.Add(len(data)-1, []byte{1})
	for page := range len(data) / 1024 {
		f.Add(page*1024+8, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	}
	path := filepath.Join(f.TempDir(), "checkpoint")
	f.Fuzz(func(t *testing.T, at int, patch []byte) {
		if at < 0 || at > len(data) {
			return
		}
		broken := bytes.Clone(data)
		copy(broken[at:], patch)
		if verifyBytes(broken) != nil {
			return
		}
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := useAll(path); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzLoad(f *testing.F) {
	type spec struct {
		N int
		M map[string][]string
		P *float64
	}
	f.Add("a", []byte(`{"metadata":{"name":"a","generation":1,"revision":2,"labels":{"x":"y"}},"spec":{"N":1,"M":{"k":["v"]},"P":1.5},"status":"s"}`))
	f.Add("a", []byte(`{"metadata":{"name":"a"},"spec":null}`))
	f.Add("", []byte(`[]`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		disk := NewMemory()
		key := apis.Key{Kind: "odd", Name: name}
		_ = disk.Save([]Change{{Key: key, Data: append([]byte{}, data...)}})
		s := NewStore(nil)
		table := NewTable[spec, string](s, "odd", true)
		report, err := s.Attach(disk)
		if err != nil {
			t.Fatal(err)
		}
		if report.Objects+len(report.Skipped) != 1 || table.Reader().Len() != report.Objects {
			t.Fatalf("%+v", report)
		}
		if report.Objects == 0 {
			return
		}
		// What was loaded can be written and loaded again.
		o, ok := table.Reader().Get(name)
		if !ok {
			t.Fatal("loaded under another name")
		}
		if err := s.Commit(func(tx *Tx) error {
			return table.StatusWriter().Observe(tx, name, func(_ *apis.Meta, st *string) { *st += "!" })
		}); err != nil && !strings.Contains(err.Error(), "cannot be written") {
			t.Fatal(err)
		}
		_ = o
	})
}
