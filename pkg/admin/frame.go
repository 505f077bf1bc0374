// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"agentd/pkg/runtime"
)

// After an exec request both sides speak frames: one byte for the type, four
// for the length of the rest (big-endian), the rest.
const (
	frameStdin    byte = 1 // client: bytes for the command
	frameStdinEnd byte = 2 // client: no more of them
	frameResize   byte = 3 // client: rows and columns, two bytes each
	frameStdout   byte = 4 // server: bytes of the command
	frameStderr   byte = 5 // server: bytes of the command, without a terminal
	frameEnd      byte = 6 // server: the last frame, an execEnd as JSON
)

const (
	frameHead = 5
	maxFrame  = 32 << 10
)

// execUpgrade is the protocol that both sides switch to.
const execUpgrade = "agentd-exec/1"

var errFrame = errors.New("malformed frame")

// execEnd says how a command ended.
type execEnd struct {
	Code int `json:"code"`
	// Error says why it did not run, or why its end is not known.
	Error *failure `json:"error,omitempty"`
}

// frames writes frames; several goroutines may do so at once.
type frames struct {
	mu  sync.Mutex
	to  io.Writer
	buf []byte
}

func (f *frames) send(kind byte, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for first := true; first || len(data) > 0; first = false {
		part := data[:min(len(data), maxFrame)]
		data = data[len(part):]
		f.buf = append(f.buf[:0], kind)
		f.buf = binary.BigEndian.AppendUint32(f.buf, uint32(len(part))) //nolint:gosec // at most maxFrame
		f.buf = append(f.buf, part...)
		if _, err := f.to.Write(f.buf); err != nil {
			return err
		}
	}
	return nil
}

func (f *frames) sendJSON(kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.send(kind, b)
}

// writer returns a writer whose bytes go out as frames of that type.
func (f *frames) writer(kind byte) io.Writer { return frameWriter{f, kind} }

type frameWriter struct {
	f    *frames
	kind byte
}

// Write sends p in frames.
func (w frameWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := w.f.send(w.kind, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// readFrame returns the next frame; buf is reused for its content.
func readFrame(from io.Reader, buf []byte) (kind byte, data []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("%w: %d bytes, at most %d are possible", errFrame, n, maxFrame)
	}
	if cap(buf) < int(n) {
		buf = make([]byte, n)
	}
	data = buf[:n]
	if _, err := io.ReadFull(from, data); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return head[0], data, nil
}

func encodeSize(s runtime.TermSize) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(min(s.Rows, 0xffff))) //nolint:gosec // bounded
	return binary.BigEndian.AppendUint16(b, uint16(min(s.Cols, 0xffff))) //nolint:gosec // bounded
}

func decodeSize(b []byte) (runtime.TermSize, error) {
	if len(b) != 4 {
		return runtime.TermSize{}, fmt.Errorf("%w: a terminal size of %d bytes", errFrame, len(b))
	}
	return runtime.TermSize{Rows: uint(binary.BigEndian.Uint16(b)), Cols: uint(binary.BigEndian.Uint16(b[2:]))}, nil
}
