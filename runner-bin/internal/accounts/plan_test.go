// SPDX-License-Identifier: Apache-2.0

package accounts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	usual := Want{UID: 1000, GID: 1000, Home: "/home/work", Shell: "/bin/bash"}
	tests := []struct {
		name    string
		have    Files
		want    Want
		expect  Files
		user    string
		remarks []string
	}{
		{
			name: "image without any accounts",
			want: Want{UID: 9001, GID: 9001, Home: "/home/work"},
			expect: Files{
				Passwd: "root:x:0:0:root:/root:/bin/sh\nwork:x:9001:9001::/home/work:/bin/sh\n",
				Group:  "root:x:0:\nwork:x:9001:\ngrpread:x:1002:work\n",
				Shadow: "root:*::0:99999:7:::\nwork:*::0:99999:7:::\n",
			},
			user: "work",
		},
		{
			name: "nobody has the ID",
			have: Files{
				Passwd: "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n",
				Group:  "root:x:0:\nshadow:x:42:\n",
				Shadow: "root:*:19000:0:99999:7:::\n",
			},
			want: usual,
			expect: Files{
				Passwd: "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\nwork:x:1000:1000::/home/work:/bin/bash\n",
				Group:  "root:x:0:\nshadow:x:42:work\nwork:x:1000:\ngrpread:x:1002:work\n",
				Shadow: "root:*:19000:0:99999:7:::\nwork:*::0:99999:7:::\n",
			},
			user: "work",
		},
		{
			name: "the image's user is renamed, in all its groups",
			have: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000:Ubuntu:/home/ubuntu:/bin/sh\n",
				Group:  "root:x:0:\nadm:x:4:syslog,ubuntu\nubuntu:x:1000:\nsudo:x:27:ubuntu\n",
				Shadow: "root:*:19000::::::\nubuntu:!:19000:0:99999:7:::\n",
			},
			want: usual,
			expect: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nwork:x:1000:1000:Ubuntu:/home/work:/bin/bash\n",
				Group:  "root:x:0:\nadm:x:4:syslog,work\nubuntu:x:1000:\nsudo:x:27:work\n",
				Shadow: "root:*:19000::::::\nwork:*:19000:0:99999:7:::\n",
			},
			user: "work",
		},
		{
			name: "the image's user is renamed while another one has our name",
			have: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nwork:x:1500:1500::/home/work:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n",
				Group:  "root:x:0:\nwork:x:1500:\n",
				Shadow: "root:*:::::::\nwork:*:::::::\nnode:!!:::::::\n",
			},
			want: usual,
			expect: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nwork:x:1000:1000::/home/work:/bin/bash\n",
				Group:  "root:x:0:\nwork:x:1000:\n",
				Shadow: "root:*:::::::\nwork:*:::::::\n",
			},
			user: "work",
		},
		{
			name: "a stale user and group of our name are renumbered",
			have: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nwork:x:1500:1500::/home/work:/bin/zsh\n",
				Group:  "root:x:0:\nwork:x:1500:\n",
				Shadow: "root:*:::::::\nwork:!$6$abc:0:0:99999:7::19000:\n",
			},
			want: usual,
			expect: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nwork:x:1000:1000::/home/work:/bin/bash\n",
				Group:  "root:x:0:\nwork:x:1000:\ngrpread:x:1002:work\n",
				Shadow: "root:*:::::::\nwork:*::0:99999:7:::\n",
			},
			user: "work",
		},
		{
			name: "the main group belongs to the image",
			have: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\n", Group: "root:x:0:\nusers:x:100:\n", Shadow: "root:*:::::::\n",
			},
			want: Want{UID: 1000, GID: 100, Home: "/home/work", Shell: "/bin/ash"},
			expect: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nwork:x:1000:100::/home/work:/bin/ash\n",
				Group:  "root:x:0:\nusers:x:100:\ngrpread:x:1002:work\n",
				Shadow: "root:*:::::::\nwork:*::0:99999:7:::\n",
			},
			user: "work",
		},
		{
			name: "supplementary groups, known, new and with a name that is taken",
			have: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nwork:x:1000:1000::/home/work:/bin/bash\n",
				Group:  "root:x:0:\nvideo:x:44:alice\nwork:x:1000:\ngroup77:x:7:\n",
				Shadow: "root:*:::::::\nwork:*:::::::\n",
			},
			want: Want{UID: 1000, GID: 1000, Extra: []int{44, 5000, 77}, Home: "/home/work", Shell: "/bin/bash"},
			expect: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nwork:x:1000:1000::/home/work:/bin/bash\n",
				Group:  "root:x:0:\nvideo:x:44:alice,work\nwork:x:1000:\ngroup77:x:7:\ngroup5000:x:5000:work\n",
				Shadow: "root:*:::::::\nwork:*:::::::\n",
			},
			user:    "work",
			remarks: []string{"group 77 gets no name: group77 is taken"},
		},
		{
			name: "lines that are no entries stay, new ones go before a NIS marker",
			have: Files{
				Passwd: "# accounts\nroot:x:0:0::/root:/bin/sh\nbroken\n\nnumber:x:abc:1::/:/bin/sh\n+::::::\n",
				Group:  "root:x:0:\n+:::\n",
				Shadow: "root:*:::::::",
			},
			want: usual,
			expect: Files{
				Passwd: "# accounts\nroot:x:0:0::/root:/bin/sh\nbroken\n\nnumber:x:abc:1::/:/bin/sh\nwork:x:1000:1000::/home/work:/bin/bash\n+::::::\n",
				Group:  "root:x:0:\nwork:x:1000:\ngrpread:x:1002:work\n+:::\n",
				Shadow: "root:*:::::::\nwork:*::0:99999:7:::\n",
			},
			user: "work",
		},
		{
			name: "a password locked in passwd itself is moved to shadow, a real one stays",
			have: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nold:!:1000:1000::/home/old:/bin/sh\n",
				Group:  "root:x:0:\nold:x:1000:\n",
				Shadow: "root:*:::::::\n",
			},
			want: usual,
			expect: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nwork:x:1000:1000::/home/work:/bin/bash\n",
				Group:  "root:x:0:\nold:x:1000:\n",
				Shadow: "root:*:::::::\nwork:*::0:99999:7:::\n",
			},
			user: "work",
		},
		{
			name: "grpread's number is taken",
			have: Files{Passwd: "root:x:0:0::/root:/bin/sh\n", Group: "root:x:0:\nother:x:1002:\n", Shadow: "root:*:::::::\n"},
			want: usual,
			expect: Files{
				Passwd: "root:x:0:0::/root:/bin/sh\nwork:x:1000:1000::/home/work:/bin/bash\n",
				Group:  "root:x:0:\nother:x:1002:\nwork:x:1000:\n",
				Shadow: "root:*:::::::\nwork:*::0:99999:7:::\n",
			},
			user: "work",
		},
		{
			name: "root sessions make no user",
			have: Files{Passwd: "admin:x:0:0::/root:/bin/sh\n", Group: "root:x:0:\n", Shadow: "admin:*:::::::\n"},
			want: Want{Extra: []int{5000}, Home: "/home/work", Shell: "/bin/sh"},
			expect: Files{
				Passwd: "admin:x:0:0::/root:/bin/sh\n", Group: "root:x:0:\ngrpread:x:1002:\n", Shadow: "admin:*:::::::\n",
			},
			user: "admin",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, user, remarks := Plan(tt.have, tt.want)
			if diff := cmp.Diff(tt.expect, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if user != tt.user {
				t.Errorf("user %q, want %q", user, tt.user)
			}
			if diff := cmp.Diff(tt.remarks, remarks); diff != "" {
				t.Errorf("remarks (-want +got):\n%s", diff)
			}
			again, _, _ := Plan(got, tt.want)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("planning again changes (-first +second):\n%s", diff)
			}
		})
	}
}

func TestApply(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc") // made by Apply
	want := Want{UID: 1000, GID: 1000, Home: "/home/work", Shell: "/bin/sh"}
	user, remarks, err := Apply(dir, want)
	if err != nil || user != Name || len(remarks) != 0 {
		t.Fatalf("%q, %v, %v", user, remarks, err)
	}
	for name, mode := range map[string]os.FileMode{"passwd": 0o644, "group": 0o644, "shadow": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}

	// Modes are kept, and nothing is left beside the files.
	if err := os.Chmod(filepath.Join(dir, "shadow"), 0o640); err != nil {
		t.Fatal(err)
	}
	want.UID = 2000
	if _, _, err := Apply(dir, want); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "shadow")); err != nil || info.Mode() != 0o640 {
		t.Errorf("shadow: %v, %v", info, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestApplyWritesOnlyChanges keeps file systems that nothing has to be written to usable when they are read only.
func TestApplyWritesOnlyChanges(t *testing.T) {
	dir := t.TempDir()
	want := Want{UID: 1000, GID: 1000, Home: "/home/work", Shell: "/bin/sh"}
	if _, _, err := Apply(dir, want); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(dir, "passwd"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Apply(dir, want); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(dir, "passwd"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("passwd was written again (%v)", err)
	}
}

// TestApplyCannotWrite still names the user: the numbers work without an entry.
func TestApplyCannotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "etc")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	user, _, err := Apply(file, Want{UID: 1000, GID: 1000})
	if err == nil || user != Name {
		t.Errorf("%q, %v", user, err)
	}
	if user, _, err = Apply(file, Want{}); err == nil || user != "root" {
		t.Errorf("%q, %v", user, err)
	}
}
