// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"testing"
)

// Proxy stands in front of a real engine.
type Proxy struct{ Server }

// NewProxy listens until the test ends and passes everything on to the engine
// on the socket. An engine that is down looks to the client as one that closes
// every connection.
func NewProxy(t testing.TB, upstreamSocket string) *Proxy {
	t.Helper()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", upstreamSocket)
		},
		DisableCompression: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	p := &Proxy{}
	p.start(t, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine"
		},
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler)
		},
	})
	return p
}
