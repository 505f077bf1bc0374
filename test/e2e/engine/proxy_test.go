// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/test/e2e/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// behind returns a proxy in front of a fake engine, and a client of the proxy.
func behind(t *testing.T) (*engine.Fake, *engine.Proxy, *http.Client) {
	t.Helper()
	fake := engine.NewFake(t)
	proxy := engine.NewProxy(t, fake.Socket())
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", proxy.Socket())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return fake, proxy, &http.Client{Transport: transport}
}

// ask makes one request; the error covers the reading of the body.
func ask(t *testing.T, c *http.Client, method, path, body string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://engine/v1.41"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestProxyPassesOn(t *testing.T) {
	_, proxy, c := behind(t)
	code, body, err := ask(t, c, "GET", "/version", "")
	if code != 200 || !strings.Contains(body, `"ApiVersion":"1.45"`) || err != nil {
		t.Errorf("status %d, body %s, error %v", code, body, err)
	}
	if n := proxy.Requests("GET", "^/version$"); n != 1 {
		t.Errorf("%d requests counted, want 1", n)
	}
}

func TestRules(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule engine.Rule
		// want holds the status of each of four requests; 0 is a broken connection.
		want [4]int
		body string
		// reached is how many requests the engine saw.
		reached int
	}{
		{name: "none", rule: engine.Rule{Path: "/nothing", Reset: true}, want: [4]int{200, 200, 200, 200}, reached: 4},
		{name: "answer", rule: engine.Rule{Path: "^/version", Status: 503, Body: "no"}, want: [4]int{503, 503, 503, 503}, body: "no"},
		{name: "the second", rule: engine.Rule{Path: "^/version", Nth: 2, Status: 500}, want: [4]int{200, 500, 200, 200}, reached: 3},
		{name: "second and third", rule: engine.Rule{Path: "^/version", Nth: 2, Times: 2, Status: 500}, want: [4]int{200, 500, 500, 200}, reached: 2},
		{name: "the first three", rule: engine.Rule{Path: "^/version", Times: 3, Status: 500}, want: [4]int{500, 500, 500, 200}, reached: 1},
		{name: "another method", rule: engine.Rule{Method: "POST", Path: "^/version", Status: 500}, want: [4]int{200, 200, 200, 200}, reached: 4},
		{name: "reset", rule: engine.Rule{Path: "^/version", Nth: 4, Reset: true}, want: [4]int{200, 200, 200, 0}, reached: 3},
		{name: "lost answer", rule: engine.Rule{Path: "^/version", Nth: 4, LoseAnswer: true}, want: [4]int{200, 200, 200, 0}, reached: 4},
		{name: "cut", rule: engine.Rule{Path: "^/version", Nth: 4, CutAfter: 5}, want: [4]int{200, 200, 200, 0}, reached: 4},
		{name: "delay", rule: engine.Rule{Path: "^/version", Delay: time.Millisecond}, want: [4]int{200, 200, 200, 200}, reached: 4},
		{
			name: "rewrite", rule: engine.Rule{Path: "^/version", Rewrite: func([]byte) []byte { return []byte("mine") }},
			want: [4]int{200, 200, 200, 200}, body: "mine", reached: 4,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake, proxy, c := behind(t)
			proxy.Add(tc.rule)
			for i, want := range tc.want {
				// One connection each: the client would repeat a request whose connection was closed before.
				c.CloseIdleConnections()
				code, body, err := ask(t, c, "GET", "/version", "")
				if err != nil {
					code = 0
				}
				if code != want {
					t.Errorf("request %d: status %d, error %v, want %d", i+1, code, err, want)
				}
				if tc.body != "" && body != tc.body {
					t.Errorf("request %d: body %q, want %q", i+1, body, tc.body)
				}
			}
			if n := fake.Requests("GET", "^/version"); n != tc.reached {
				t.Errorf("the engine saw %d requests, want %d", n, tc.reached)
			}
		})
	}
}

func TestHoldReleaseAndRemove(t *testing.T) {
	fake, proxy, c := behind(t)
	for _, let := range []func(*engine.Handle){(*engine.Handle).Release, (*engine.Handle).Remove, func(*engine.Handle) { proxy.Clear() }} {
		held := proxy.Add(engine.Rule{Path: "^/version", Hold: true})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, "GET", "http://engine/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := c.Do(req); !errors.Is(err, context.DeadlineExceeded) {
			_ = resp.Body.Close()
			t.Errorf("held request: %v", err)
		}
		cancel()
		for tick := time.Tick(time.Millisecond); proxy.Open("^/version") > 0; {
			<-tick // until the proxy noticed that the client left
		}
		if n := fake.Requests("", "^/version"); n != 0 {
			t.Error("the engine saw a held request")
		}
		if held.Applied() != 1 {
			t.Errorf("applied %d times, want 1", held.Applied())
		}
		let(held)
		if code, _, err := ask(t, c, "GET", "/version", ""); code != 200 || err != nil {
			t.Errorf("afterwards: status %d, error %v", code, err)
		}
		proxy.Clear()
		fake.Forget()
	}
}

func TestRequestRewritten(t *testing.T) {
	fake, proxy, c := behind(t)
	fake.AddImage("i", "amd64", nil, nil)
	proxy.Add(engine.Rule{Method: "POST", Path: "/containers/create", Request: func(b []byte) []byte {
		return []byte(strings.ReplaceAll(string(b), "main1", "somebody-else"))
	}})
	if code, body, err := ask(t, c, "POST", "/containers/create?name=n", `{"Image":"i","Hostname":"main1"}`); code != 201 || err != nil {
		t.Fatalf("status %d, body %s, error %v", code, body, err)
	}
	if got := string(fake.Body("n")); got != `{"Image":"i","Hostname":"somebody-else"}` {
		t.Errorf("the engine got %s", got)
	}
}

// TestStreams blackholes a running stream and then cuts it.
func TestStreams(t *testing.T) {
	fake, proxy, c := behind(t)
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://engine/v1.41/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	fake.Inject("one")
	if !lines.Scan() || lines.Text() != "one" {
		t.Fatalf("got %q, error %v", lines.Text(), lines.Err())
	}
	hole := proxy.Add(engine.Rule{Path: "^/events", Blackhole: true})
	fake.Inject("two")
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for proxy.Swallowed() == 0 { // until the proxy has it
		<-tick.C
	}
	hole.Remove()
	fake.Inject("three")
	if !lines.Scan() || lines.Text() != "three" {
		t.Errorf("got %q, error %v, want the line after the hole", lines.Text(), lines.Err())
	}
	proxy.Cut("^/events")
	if lines.Scan() || lines.Err() == nil {
		t.Errorf("got %q, error %v, want a broken stream", lines.Text(), lines.Err())
	}
}

func TestDownAndUp(t *testing.T) {
	fake, proxy, c := behind(t)
	fake.Down()
	if _, _, err := ask(t, c, "GET", "/version", ""); err == nil {
		t.Error("an answer without an engine")
	}
	fake.Up()
	proxy.Down()
	if _, _, err := ask(t, c, "GET", "/version", ""); err == nil {
		t.Error("an answer without a proxy")
	}
	proxy.Up()
	if code, _, err := ask(t, c, "GET", "/version", ""); code != 200 || err != nil {
		t.Errorf("status %d, error %v", code, err)
	}
}
