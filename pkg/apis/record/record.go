// SPDX-License-Identifier: Apache-2.0

// Package record is the language that an agent and the runner inside a kernel speak over the kernel's unix socket:
// numbered, length-prefixed records.
//
// A record on the wire, numbers in big-endian order:
//
//	4 bytes   length of everything that follows
//	2 bytes   type
//	2 bytes   length of the run ID
//	8 bytes   sequence number
//	8 bytes   request ID
//	…         run ID, text
//	…         payload, JSON
//
// Either side may be hostile or broken: lengths are checked before anything is allocated, and whoever breaks a rule
// gets no second record.
package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Protocol is the version of the record format and of the payloads that both sides announce in their hello.
const Protocol = 1

// MaxPayload is the largest payload in bytes, MaxRunID the longest run ID.
const (
	MaxPayload = 1 << 20
	MaxRunID   = 128
)

// headerSize counts the fixed fields after the length.
const headerSize = 2 + 2 + 8 + 8

// ErrMalformed is the class of errors after which a stream cannot be read any further.
var ErrMalformed = errors.New("malformed record")

// Type says what a record is for.
type Type uint16

// The types of records. An answer has the type and the request ID of its request, or the type Failure.
const (
	// Hello is the first record of either side; its payload is a HelloPayload.
	Hello Type = 1
	// Failure answers a request that was not carried out; its payload is a FailurePayload.
	Failure Type = 2
	// StatusRequest asks for one StatusPayload.
	StatusRequest Type = 16
	// WatchRequest asks for a StatusPayload now and after every change, all with the request's ID, until the stream ends.
	WatchRequest Type = 17
)

// Record is one message.
type Record struct {
	Type Type
	// Seq numbers the records of one sender from 1.
	Seq uint64
	// Request ties answers to a request; the asking side chooses it, 0 means none.
	Request uint64
	// Run is the ID of the execution that the record belongs to, empty for none.
	Run     string
	Payload []byte
}

// New returns a record with the value as its JSON payload; a nil value makes an empty one. The sequence number is left
// to the Writer.
func New(t Type, request uint64, value any) (Record, error) {
	r := Record{Type: t, Request: request}
	if value == nil {
		return r, nil
	}
	payload, err := json.Marshal(value)
	if err != nil {
		return Record{}, fmt.Errorf("encode the payload of a record of type %d: %w", t, err)
	}
	r.Payload = payload
	return r, nil
}

// Decode reads the JSON payload into a value. Unknown fields are ignored, so that older and newer sides understand
// each other.
func (r Record) Decode(value any) error {
	if err := json.Unmarshal(r.Payload, value); err != nil {
		return fmt.Errorf("%w: payload of type %d: %w", ErrMalformed, r.Type, err)
	}
	return nil
}

// Append adds the record's bytes to dst. It fails when a part is larger than the format allows.
func Append(dst []byte, r Record) ([]byte, error) {
	if len(r.Payload) > MaxPayload {
		return dst, fmt.Errorf("record of type %d: payload of %d bytes is larger than %d", r.Type, len(r.Payload), MaxPayload)
	}
	if len(r.Run) > MaxRunID {
		return dst, fmt.Errorf("record of type %d: run ID of %d bytes is longer than %d", r.Type, len(r.Run), MaxRunID)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(headerSize+len(r.Run)+len(r.Payload)))
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Type))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.Run)))
	dst = binary.BigEndian.AppendUint64(dst, r.Seq)
	dst = binary.BigEndian.AppendUint64(dst, r.Request)
	dst = append(dst, r.Run...)
	return append(dst, r.Payload...), nil
}

// Reader takes records off a stream.
type Reader struct {
	from io.Reader
	// limit is the largest payload accepted.
	limit int
}

// NewReader returns a reader that accepts payloads of up to limit bytes; 0 means MaxPayload.
func NewReader(from io.Reader, limit int) *Reader {
	if limit <= 0 || limit > MaxPayload {
		limit = MaxPayload
	}
	return &Reader{from: from, limit: limit}
}

// Read returns the next record. The error is io.EOF at the end of the stream between two records, io.ErrUnexpectedEOF
// inside one, and of class ErrMalformed for what no record looks like.
func (r *Reader) Read() (Record, error) {
	var head [4 + headerSize]byte
	if _, err := io.ReadFull(r.from, head[:]); err != nil {
		return Record{}, err
	}
	size := int64(binary.BigEndian.Uint32(head[0:]))
	run := int64(binary.BigEndian.Uint16(head[6:]))
	payload := size - headerSize - run
	switch {
	case run > MaxRunID:
		return Record{}, fmt.Errorf("%w: run ID of %d bytes", ErrMalformed, run)
	case payload < 0:
		return Record{}, fmt.Errorf("%w: %d bytes are too few for its parts", ErrMalformed, size)
	case payload > int64(r.limit):
		return Record{}, fmt.Errorf("%w: payload of %d bytes, at most %d are accepted", ErrMalformed, payload, r.limit)
	}
	// The buffer grows with what arrives, not with what was promised.
	var body bytes.Buffer
	if n, err := io.CopyN(&body, r.from, run+payload); err != nil {
		if errors.Is(err, io.EOF) && n < run+payload {
			err = io.ErrUnexpectedEOF
		}
		return Record{}, err
	}
	record := Record{
		Type:    Type(binary.BigEndian.Uint16(head[4:])),
		Seq:     binary.BigEndian.Uint64(head[8:]),
		Request: binary.BigEndian.Uint64(head[16:]),
		Run:     string(body.Next(int(run))),
	}
	if payload > 0 {
		record.Payload = body.Bytes()
	}
	return record, nil
}

// Writer puts records on a stream and numbers them. It is not safe for use by several goroutines at once.
type Writer struct {
	to  io.Writer
	seq uint64
	buf []byte
}

// NewWriter returns a writer whose first record gets the number 1.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write sends one record in a single write to the stream.
func (w *Writer) Write(r Record) error {
	r.Seq = w.seq + 1
	buf, err := Append(w.buf[:0], r)
	if err != nil {
		return err
	}
	w.seq++
	if cap(buf) <= 4096 {
		w.buf = buf // a rare large record must not be kept for ever
	}
	_, err = w.to.Write(buf)
	return err
}
