// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/pkg/apis"
)

func TestUnsupported(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want []string // how each error begins and ends
	}{
		"defaults": {file: minimal},
		"said in full": {
			file: "[agent]\nbackend='docker'\n[container]\nsandbox-type='docker'\nscratch-type='hostdir'\n[resource]\n[etcd]\n",
		},
		"other values": {
			file: "[agent]\nbackend='k8s'\n[container]\nsandbox-type='jail'\nscratch-type='memory'\n[resource]\n[etcd]\n",
			want: []string{
				`agent.backend: "kubernetes" is …; set it, or leave this node to another agent`,
				`container.sandbox-type: "jail" is …; set "docker", or leave the key out`,
				`container.scratch-type: "memory" is …; set "hostdir", or leave the key out`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := mustLoad(t, tt.file, nil)
			var got []string
			for _, err := range c.Unsupported() {
				if !errors.Is(err, apis.ErrInvalid) {
					t.Errorf("%v is not of class ErrInvalid", err)
				}
				begin, rest, _ := strings.Cut(err.Error(), " is ")
				_, end, _ := strings.Cut(rest, ";")
				got = append(got, begin+" is …;"+end)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
