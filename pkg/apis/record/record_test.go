// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestRoundTrip(t *testing.T) {
	records := []Record{
		{Type: Hello, Request: 1, Payload: []byte(`{"protocol":1}`)},
		{Type: StatusRequest, Request: 1<<64 - 1},
		{Type: 0xffff, Request: 7, Run: strings.Repeat("r", MaxRunID), Payload: bytes.Repeat([]byte("x"), MaxPayload)},
		{Type: Failure, Run: "실행", Payload: []byte{0, 1, 2, 255}},
	}
	var stream bytes.Buffer
	w := NewWriter(&stream)
	for i := range records {
		if err := w.Write(records[i]); err != nil {
			t.Fatal(err)
		}
		records[i].Seq = uint64(i + 1)
	}
	r := NewReader(iotest.HalfReader(&stream), 0)
	for i, want := range records {
		got, err := r.Read()
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		if !bytes.Equal(want.Payload, got.Payload) {
			t.Errorf("record %d: the payload differs", i)
		}
		want.Payload, got.Payload = nil, nil // a mebibyte is too much for a diff
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("record %d (-want +got):\n%s", i, diff)
		}
	}
	if _, err := r.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last record: %v, want EOF", err)
	}
}

func TestWireForm(t *testing.T) {
	got, err := Append(nil, Record{Type: WatchRequest, Seq: 2, Request: 3, Run: "ab", Payload: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	want := "\x00\x00\x00\x18\x00\x11\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03ab{}"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAppendRefusesTooMuch(t *testing.T) {
	for name, r := range map[string]Record{
		"payload": {Payload: make([]byte, MaxPayload+1)},
		"run ID":  {Run: strings.Repeat("r", MaxRunID+1)},
	} {
		if got, err := Append(nil, r); err == nil || len(got) != 0 {
			t.Errorf("%s: %d bytes, error %v; want none and an error", name, len(got), err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	head := func(size, run int) string {
		b := binary.BigEndian.AppendUint32(nil, uint32(size))
		b = binary.BigEndian.AppendUint16(b, uint16(StatusRequest))
		b = binary.BigEndian.AppendUint16(b, uint16(run))
		return string(append(b, make([]byte, 16)...))
	}
	tests := []struct {
		name, input string
		want        error
	}{
		{"nothing", "", io.EOF},
		{"cut in the length", "\x00\x00", io.ErrUnexpectedEOF},
		{"cut in the header", head(20, 0)[:10], io.ErrUnexpectedEOF},
		{"cut in the payload", head(30, 0) + "12345", io.ErrUnexpectedEOF},
		{"no payload at all", head(30, 0), io.ErrUnexpectedEOF},
		{"shorter than its header", head(19, 0), ErrMalformed},
		{"zero", head(0, 0), ErrMalformed},
		{"run ID longer than the rest", head(22, 3), ErrMalformed},
		{"run ID too long", head(20+200, 200), ErrMalformed},
		{"payload over the limit", head(20+1025, 0), ErrMalformed},
		{"largest length", head(1<<32-1, 0), ErrMalformed},
		{"text of another protocol", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewReader(strings.NewReader(tt.input), 1024).Read()
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

// TestPromiseAllocatesNothing keeps a peer from making us reserve what it only announces.
func TestPromiseAllocatesNothing(t *testing.T) {
	head := binary.BigEndian.AppendUint32(nil, headerSize+MaxPayload)
	head = append(head, make([]byte, headerSize)...)
	const rounds = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		_, _ = NewReader(bytes.NewReader(head), 0).Read()
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / rounds; got > 8192 {
		t.Errorf("%d bytes were allocated for a payload that never came", got)
	}
}

func TestDecode(t *testing.T) {
	r, err := New(Hello, 5, HelloPayload{Protocol: 1, Software: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var hello HelloPayload
	if err := r.Decode(&hello); err != nil || hello.Protocol != 1 || r.Request != 5 {
		t.Errorf("%+v, %v", hello, err)
	}
	if err := (Record{Payload: []byte("{")}).Decode(&hello); !errors.Is(err, ErrMalformed) {
		t.Errorf("damaged payload: %v, want ErrMalformed", err)
	}
	if _, err := New(Hello, 1, func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

func TestWriterPassesErrorsOn(t *testing.T) {
	w := NewWriter(failing{})
	if err := w.Write(Record{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want that of the stream", err)
	}
	if err := w.Write(Record{Payload: make([]byte, MaxPayload+1)}); err == nil || errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want one about the size", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func FuzzRead(f *testing.F) {
	for _, r := range []Record{{Type: Hello, Payload: []byte(`{}`)}, {Type: 9, Run: "run", Request: 1, Seq: 2}} {
		b, err := Append(nil, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b...))
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		reader := NewReader(bytes.NewReader(data), 1<<16)
		var again []byte
		for {
			r, err := reader.Read()
			if err != nil {
				break
			}
			if len(r.Payload) > 1<<16 || len(r.Run) > MaxRunID {
				t.Fatalf("a record over the limits: %d, %d", len(r.Payload), len(r.Run))
			}
			if again, err = Append(again, r); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(data, again) {
			t.Fatal("what was read is not what was sent")
		}
	})
}
