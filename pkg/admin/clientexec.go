// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"agentd/pkg/runtime"
)

// Exec runs a command inside a kernel and returns its exit code. Sizes of the
// terminal are read from streams.Resize until the command ends. A read of
// streams.Stdin that is under way then is left behind.
func (c *Client) Exec(ctx context.Context, ref string, req ExecRequest, streams runtime.ExecStreams) (int, error) {
	req.Stdin = streams.Stdin != nil
	body, err := json.Marshal(req)
	if err != nil {
		return 0, err
	}
	header := http.Header{"Connection": {"Upgrade"}, "Upgrade": {execUpgrade}, "Content-Type": {"application/json"}}
	resp, err := c.do(ctx, http.MethodPost, "/v1/exec/"+url.PathEscape(ref), nil, body, header)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	conn, ok := resp.Body.(io.ReadWriter)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		return 0, fmt.Errorf("agentd does not speak %s: it answered %s", execUpgrade, resp.Status)
	}
	stop := context.AfterFunc(ctx, func() { _ = resp.Body.Close() })
	defer stop()
	out := &frames{to: conn}
	done := make(chan struct{})
	defer close(done)
	go func() { // ends with the connection, or with the input
		if streams.Stdin == nil {
			return
		}
		_, _ = io.Copy(out.writer(frameStdin), streams.Stdin)
		_ = out.send(frameStdinEnd, nil)
	}()
	go func() {
		for {
			select {
			case <-done:
				return
			case size, ok := <-streams.Resize:
				if !ok || out.send(frameResize, encodeSize(size)) != nil {
					return
				}
			}
		}
	}()
	code, err := receiveOutput(conn, streams)
	if err != nil && ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return code, err
}

// receiveOutput passes on what the command writes until its end is told.
func receiveOutput(from io.Reader, streams runtime.ExecStreams) (int, error) {
	buf := make([]byte, maxFrame)
	for {
		kind, data, err := readFrame(from, buf)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("it ended before the command did")
			}
			return 0, fmt.Errorf("%w any more: %w", ErrUnreachable, err)
		}
		switch kind {
		case frameStdout:
			_, err = streams.Stdout.Write(data)
		case frameStderr:
			_, err = streams.Stderr.Write(data)
		case frameEnd:
			var end execEnd
			if err := json.Unmarshal(data, &end); err != nil {
				return 0, fmt.Errorf("%w: %w", errFrame, err)
			}
			if end.Error != nil {
				return 0, decodeFailure(http.StatusInternalServerError, *end.Error)
			}
			return end.Code, nil
		default:
			err = fmt.Errorf("%w: type %d", errFrame, kind)
		}
		if err != nil {
			return 0, err
		}
	}
}
