// SPDX-License-Identifier: Apache-2.0

package childenv

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/runner-bin/internal/layout"
)

// tree makes files and directories (names that end in a slash) of a container.
func tree(t *testing.T, files map[string]string) layout.Layout {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return layout.Layout{Root: root}
}

func TestBuild(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		own   []string
		want  []string
		err   bool
	}{
		{
			name: "bare image",
			want: []string{
				"LANG=C.UTF-8", "HOME=/home/work", "TERM=xterm",
				"PATH=/home/work/.local/bin:" + layout.DefaultPath,
			},
		},
		{
			name:  "each layer overlays the one before",
			files: map[string]string{"/bin/ash": "", "/bin/sh": "", "/home/config/environ.txt": "LANG=ko_KR.UTF-8\nA=2\nB=x=y\n"},
			own:   []string{"A=1", "LANG=C", "TERM=dumb", "HOME=/root", "A=1.5"},
			want: []string{
				"A=2", "LANG=ko_KR.UTF-8", "TERM=xterm", "HOME=/home/work", "B=x=y", "SHELL=/bin/ash",
				"PATH=/home/work/.local/bin:" + layout.DefaultPath,
			},
		},
		{
			name:  "what is set is not defaulted",
			files: map[string]string{"/bin/bash": ""},
			own:   []string{"SHELL=/bin/zsh", "PATH=/x:/home/work/.local/bin:/y"},
			want:  []string{"SHELL=/bin/zsh", "PATH=/home/work/.local/bin:/x:/y", "LANG=C.UTF-8", "HOME=/home/work", "TERM=xterm"},
		},
		{
			name: "directories of tools come first",
			files: map[string]string{
				"/usr/local/cuda/bin/": "", "/usr/local/nvidia/bin/": "", "/home/linuxbrew/.linuxbrew/": "",
			},
			own: []string{"PATH=/bin:/usr/local/nvidia/bin"},
			want: []string{
				"PATH=/home/work/.local/bin:/home/linuxbrew/.linuxbrew/bin:/usr/local/nvidia/bin:/usr/local/cuda/bin:/bin",
				"LANG=C.UTF-8", "HOME=/home/work", "TERM=xterm",
			},
		},
		{
			name: "the JSON form replaces the text form",
			files: map[string]string{
				"/home/config/environ.json": `{"KEY":"line 1\nline 2","EMPTY":""}`,
				"/home/config/environ.txt":  "KEY=line 1\nline 2\nOTHER=x\n",
			},
			own:  []string{"PATH=/bin"},
			want: []string{"PATH=/home/work/.local/bin:/bin", "LANG=C.UTF-8", "HOME=/home/work", "TERM=xterm", "EMPTY=", "KEY=line 1\nline 2"},
		},
		{
			name: "a damaged JSON form leaves the text form",
			files: map[string]string{
				"/home/config/environ.json": `{"KEY":1}`,
				"/home/config/environ.txt":  "KEY=x\n",
			},
			own:  []string{"PATH=/bin"},
			want: []string{"PATH=/home/work/.local/bin:/bin", "LANG=C.UTF-8", "HOME=/home/work", "TERM=xterm", "KEY=x"},
			err:  true,
		},
		{
			name:  "names that cannot be variables",
			files: map[string]string{"/home/config/environ.json": `{"":"a","A=B":"c","NUL":"\u0000","OK":"1"}`},
			own:   []string{"PATH=/bin"},
			want:  []string{"PATH=/home/work/.local/bin:/bin", "LANG=C.UTF-8", "HOME=/home/work", "TERM=xterm", "OK=1"},
			err:   true,
		},
		{
			name:  "unreadable",
			files: map[string]string{"/home/config/environ.txt/": ""},
			own:   []string{"PATH=/bin"},
			want:  []string{"PATH=/home/work/.local/bin:/bin", "LANG=C.UTF-8", "HOME=/home/work", "TERM=xterm"},
			err:   true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env, err := Build(tree(t, tt.files), tt.own)
			if (err != nil) != tt.err {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, env.List()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseText(t *testing.T) {
	got := maps.Collect(ParseText("A=1\n\nno equals sign\n=nameless\nB=\nC=a=b\nD=\x00\nE='quoted'\nF=마지막"))
	want := map[string]string{"A": "1", "B": "", "C": "a=b", "E": "'quoted'", "F": "마지막"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
