// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"testing"

	"agentd/pkg/apis"
)

// TestFromText holds the words of real engines: 20.10 (Debian 12) as seen, 28 as published.
func TestFromText(t *testing.T) {
	for _, tc := range []struct {
		name   string
		text   string
		port   int
		reason string
		class  error
	}{
		{
			name: "20.10 port of another container", port: 30999,
			text: "driver failed programming external connectivity on endpoint p4 (dc1f082e33fb71e91cc2cc2d464eea6b56f70a98f10c0719568015f1cc3ae36a): Bind for 0.0.0.0:30999 failed: port is already allocated",
		},
		{
			name: "20.10 port of another program", port: 30998,
			text: "driver failed programming external connectivity on endpoint kernel.python.5f0f3ba0-0f9e-4f1c-8f3e-000000000001 (01ab): Error starting userland proxy: listen tcp4 127.0.0.1:30998: bind: address already in use",
		},
		{
			name: "28 port of another program", port: 30997,
			text: "failed to set up container networking: driver failed programming external connectivity on endpoint k (01ab): failed to bind host port for 0.0.0.0:30997:172.18.0.2:2200/tcp: address already in use",
		},
		{
			name: "28 later form", port: 30996,
			text: "driver failed programming external connectivity on endpoint k (01ab): failed to bind host port 127.0.0.1:30996/tcp: address already in use",
		},
		{name: "IPv6", port: 30995, text: "Error starting userland proxy: listen tcp6 [::]:30995: bind: address already in use"},
		{name: "no port named", port: 0, text: "driver failed: address already in use"},
		{
			name: "bind source", reason: apis.ReasonMountMissing,
			text: `invalid mount config for type "bind": bind source path does not exist: /mnt/vfroot/a`,
		},
		{
			name: "rlimit", reason: apis.ReasonInvalid,
			text: "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error setting rlimits for ready process: error setting rlimit type 7: operation not permitted: unknown",
		},
		{name: "device", reason: apis.ReasonInvalid, text: `error gathering device information while adding custom device "/dev/nope": no such file or directory`},
		{name: "user", reason: apis.ReasonInvalid, text: "unable to find user nobodyxx: no matching entries in passwd file"},
		{name: "ambiguous network", reason: apis.ReasonNetworkAmbiguous, text: "network n is ambiguous (2 matches found on name)"},
		{name: "missing network", class: apis.ErrUnavailable, text: "network bai-singlenode-1 not found"},
		{
			name: "20.10 pools", class: apis.ErrUnavailable,
			text: "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network",
		},
		{name: "28 pools", class: apis.ErrUnavailable, text: "all predefined address pools have been fully subnetted"},
		{name: "nothing known", text: "something went wrong", port: -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := fromText(errors.New("Error response from daemon: " + tc.text))
			var port *apis.PortInUseError
			switch {
			case tc.port < 0:
				if err != nil {
					t.Errorf("got %v, want nothing", err)
				}
			case tc.class != nil:
				if !errors.Is(err, tc.class) || errors.Is(err, apis.ErrNotFound) {
					t.Errorf("got %v, want class %v", err, tc.class)
				}
			case tc.reason != "":
				if terminal, ok := apis.AsTerminal(err); !ok || terminal.Reason != tc.reason {
					t.Errorf("got %v, want terminal %s", err, tc.reason)
				}
			case !errors.As(err, &port) || port.Port != tc.port:
				t.Errorf("got %v, want port %d in use", err, tc.port)
			}
		})
	}
}

func TestPullError(t *testing.T) {
	for text, reason := range map[string]string{
		"manifest for cr.example/a/b:1 not found: manifest unknown: manifest unknown":                                                              apis.ReasonImageMissing,
		"no matching manifest for linux/amd64 in the manifest list entries":                                                                        apis.ReasonImageMissing,
		"unauthorized: authentication required":                                                                                                    apis.ReasonUnauthorized,
		"Head \"https://cr.example/v2/a/b/manifests/1\": unauthorized: incorrect username or password":                                             apis.ReasonUnauthorized,
		"Get \"https://cr.example/v2/\": no basic auth credentials":                                                                                apis.ReasonUnauthorized,
		"pull access denied for nope, repository does not exist or may require 'docker login': denied: requested access to the resource is denied": apis.ReasonUnauthorized,
		"Get \"https://cr.example/v2/\": dial tcp: lookup cr.example: no such host":                                                                "",
		"Get \"http://localhost:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused":                                                        "",
		"open /var/lib/docker/tmp/x: permission denied":                                                                                            "",
		"toomanyrequests: You have reached your pull rate limit":                                                                                   "",
		"write /var/lib/docker/tmp/x: no space left on device":                                                                                     "",
	} {
		err := pullError(errors.New(text))
		terminal, ok := apis.AsTerminal(err)
		switch {
		case reason == "" && (ok || !errors.Is(err, apis.ErrUnavailable)):
			t.Errorf("%q: got %v, want transient", text, err)
		case reason != "" && (!ok || terminal.Reason != reason):
			t.Errorf("%q: got %v, want terminal %s", text, err, reason)
		}
	}
}
