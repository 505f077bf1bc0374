// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"
	"sigs.k8s.io/yaml"

	"agentd/pkg/apis"
)

var update = flag.Bool("update", false, "write the golden files anew")

func parseOne(t *testing.T, text string) Session {
	t.Helper()
	list, err := Parse([]byte(text), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("%d sessions, want 1", len(list))
	}
	return list[0]
}

const head = "apiVersion: agentd/v1\nkind: ClusterSession\nmetadata: {name: demo}\n"

// TestParseGolden compares whole sessions with what they were when somebody last looked at them.
func TestParseGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/session/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".golden.yaml") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			list, err := Parse(data, filepath.Base(file))
			var got []byte
			if err != nil {
				got = []byte(err.Error() + "\n")
			} else if got, err = yaml.Marshal(list); err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseProblems(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string // "line: field: …" beginnings, in order
	}{
		"empty file":     {"", []string{"f.yaml: there is no session in it"}},
		"only a comment": {"# nothing\n---\n", []string{"f.yaml: there is no session in it"}},
		"not YAML":       {"a: b: c\n", []string{"f.yaml: this is not YAML"}},
		"a list":         {"- a\n", []string{"f.yaml:1: expected a mapping"}},
		"other kind":     {"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {image: i}\n", []string{"f.yaml:1: apiVersion: expected agentd/v1", "f.yaml:2: kind: expected ClusterSession"}},
		"unknown fields": {head + "spec:\n  image: i\n  imagge: j\n  slots: {cpu: 1}\nextra: 1\n", []string{"f.yaml:6: spec.imagge: unknown field", "f.yaml:8: extra: unknown field"}},
		"wrong types": {
			head + "spec:\n  image: [i]\n  uid: one\n  sudo: 1\n  environ: {A: 1, B: true}\n  replicas: {main: 1}\n  command: ls\n",
			[]string{
				"f.yaml:5: spec.image: expected a text, found a list", "f.yaml:6: spec.uid: expected a whole number, found the text \"one\"",
				"f.yaml:7: spec.sudo: expected true or false, found 1", "f.yaml:8: spec.environ.A: expected a text, found 1",
				"f.yaml:8: spec.environ.B: expected a text, found true", "f.yaml:9: spec.replicas: expected a list, found a mapping",
				"f.yaml:10: spec.command: expected a list",
			},
		},
		"given twice":    {head + "spec:\n  image: i\n  environ:\n    A: x\n    A: y\n  image: j\n", []string{"f.yaml:8: spec.environ.A: is given twice; first on line 7", "f.yaml:9: spec.image: is given twice"}},
		"no name":        {"apiVersion: agentd/v1\nkind: ClusterSession\nspec: {image: i}\n", []string{"f.yaml:1: metadata.name: is missing"}},
		"name with /":    {strings.Replace(head, "demo", "a/b", 1) + "spec: {image: i}\n", []string{"f.yaml:3: metadata.name:"}},
		"name with ..":   {strings.Replace(head, "demo", "a..b", 1) + "spec: {image: i}\n", []string{"f.yaml:3: metadata.name:"}},
		"name control":   {strings.Replace(head, "demo", `"a\u0007"`, 1) + "spec: {image: i}\n", []string{"f.yaml:3: metadata.name:"}},
		"id":             {strings.Replace(head, "name: demo", "name: demo, id: ../x", 1) + "spec: {image: i}\n", []string{"f.yaml:3: metadata.id: expected a UUID"}},
		"no image":       {head + "spec: {slots: {cpu: 1}}\n", []string{"f.yaml:4: spec.image: is missing"}},
		"image blank":    {head + "spec: {image: \"a b\"}\n", []string{"f.yaml:4: spec: kernel"}},
		"pull":           {head + "spec: {image: i, pull: always}\n", []string{"f.yaml:4: spec.pull: known are none, tag and digest"}},
		"negative slot":  {head + "spec: {image: i, slots: {cpu: -1}}\n", []string{"f.yaml:4: spec.slots.cpu: \"-1\" is negative"}},
		"negative mem":   {head + "spec: {image: i, slots: {mem: -1g}}\n", []string{"f.yaml:4: spec.slots.mem: \"-1g\" is negative"}},
		"NaN":            {head + "spec: {image: i, slots: {cpu: .nan}}\n", []string{"f.yaml:4: spec.slots.cpu:"}},
		"infinite":       {head + "spec: {image: i, slots: {cpu: Infinity, mem: inf}}\n", []string{"f.yaml:4: spec.slots.cpu:", "f.yaml:4: spec.slots.mem:"}},
		"exponent":       {head + "spec: {image: i, shm: 1e999999999k, slots: {cpu: 1e999999999, mem: 1e999999999k}}\n", []string{"f.yaml:4: spec.slots.cpu:", "f.yaml:4: spec.slots.mem:", "f.yaml:4: spec.shm:"}},
		"unknown suffix": {head + "spec: {image: i, slots: {mem: 5x}}\n", []string{"f.yaml:4: spec.slots.mem:"}},
		"slot name":      {head + "spec: {image: i, slots: {\"C P U\": 1}}\n", []string{"f.yaml:4: spec: kernel"}},
		"shm":            {head + "spec: {image: i, shm: -5m}\n", []string{"f.yaml:4: spec.shm:"}},
		"huge shm":       {head + "spec: {image: i, shm: 99999y}\n", []string{"f.yaml:4: spec.shm:"}},
		"uid":            {head + "spec: {image: i, uid: -2}\n", []string{"f.yaml:4: spec: kernel"}},
		"huge number":    {head + "spec: {image: i, uid: 99999999999999999999}\n", []string{"f.yaml:4: spec.uid: expected a whole number"}},
		"no main":        {head + "spec: {image: i, replicas: [{role: sub}]}\n", []string{"f.yaml:4: spec.replicas: no role is called main"}},
		"role twice":     {head + "spec:\n  image: i\n  replicas:\n  - {role: main}\n  - {role: main}\n", []string{"f.yaml:8: spec.replicas[1].role: role \"main\" is given twice"}},
		"duplicate host": {head + "spec:\n  image: i\n  replicas:\n  - {role: main}\n  - {role: sub, count: 11}\n  - {role: sub1}\n", []string{"f.yaml:7: spec.replicas:"}},
		"no role":        {head + "spec:\n  image: i\n  replicas:\n  - {role: main}\n  - {count: 2}\n", []string{"f.yaml:8: spec.replicas[1].role: is missing"}},
		"zero kernels":   {head + "spec:\n  image: i\n  replicas:\n  - {role: main, count: 0}\n", []string{"f.yaml:7: spec.replicas[0].count: 0 kernels"}},
		"many kernels":   {head + "spec:\n  image: i\n  replicas:\n  - {role: main}\n  - {role: sub, count: 100000000}\n", []string{"f.yaml:8: spec.replicas[1].count:"}},
		"role name":      {head + "spec:\n  image: i\n  replicas:\n  - {role: main}\n  - {role: ../x}\n", []string{"f.yaml:7: spec.replicas:"}},
		"network mode":   {head + "spec: {image: i, network: {mode: vlan}}\n", []string{"f.yaml:4: spec.network.mode: known are bridge, overlay and host"}},
		"overlay name":   {head + "spec: {image: i, network: {mode: overlay}}\n", []string{"f.yaml:4: spec.network.name: is missing"}},
		"bridge name":    {head + "spec: {image: i, network: {mode: bridge, name: x}}\n", []string{"f.yaml:4: spec.network.name: only mode overlay"}},
		"port":           {head + "spec: {image: i, preopenPorts: [0]}\n", []string{"f.yaml:4: spec.preopenPorts:"}},
		"reserved port":  {head + "spec: {image: i, preopenPorts: [2000]}\n", []string{"f.yaml:4: spec.preopenPorts:"}},
		"mount target":   {head + "spec:\n  image: i\n  mounts: [{source: /data, target: /etc/passwd}]\n", []string{"f.yaml:5: spec: kernel"}},
		"dotfile":        {head + "spec:\n  image: i\n  dotfiles: [{path: ../x, data: y}]\n", []string{"f.yaml:5: spec: kernel"}},
		"dotfile mode":   {head + "spec:\n  image: i\n  dotfiles: [{path: x, perm: \"9\", data: y}]\n", []string{"f.yaml:6: spec.dotfiles[0].perm:"}},
		"alias":          {head + "spec:\n  image: &i x\n  pull: *i\n", []string{"f.yaml:6: spec.pull: aliases"}},
		"merge":          {head + "spec:\n  <<: {image: i}\n", []string{"f.yaml:5: spec: a name is expected", "f.yaml:5: spec.image: is missing"}},
		"twice in file":  {head + "spec: {image: i}\n---\n" + head + "spec: {image: i}\n", []string{"f.yaml:8: metadata: session demo stands in this file twice; first on line 3"}},
		"second broken":  {head + "spec: {image: i}\n---\n" + head + "spec: {imag: i}\n", []string{"f.yaml:9: spec.imag: unknown field", "f.yaml:9: spec.image: is missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := Parse([]byte(c.text), "f.yaml")
			if err == nil {
				t.Fatalf("no problem found; got %+v", list)
			}
			if !errors.Is(err, apis.ErrInvalid) {
				t.Errorf("not of class ErrInvalid: %v", err)
			}
			got := strings.Split(err.Error(), "\n")
			ok := len(got) >= len(c.want)
			for i := range c.want {
				ok = ok && strings.HasPrefix(got[i], c.want[i])
			}
			if !ok || len(got) != len(c.want) && !strings.Contains(c.want[0], "kernel") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestParseLimits(t *testing.T) {
	if _, err := Parse(make([]byte, MaxFileSize+1), "big.yaml"); err == nil || !strings.Contains(err.Error(), "at most 1048576") {
		t.Errorf("a file that is too large: %v", err)
	}
	many := head + "spec:\n  image: i\n" + strings.Repeat("  x: 1\n", 500)
	_, err := Parse([]byte(many), "many.yaml")
	if n := strings.Count(err.Error(), "\n") + 1; n != maxProblems+1 || !strings.Contains(err.Error(), "more") {
		t.Errorf("%d lines of problems: %.200s", n, err)
	}
}

func TestParseIsDeterministic(t *testing.T) {
	data := example(t)
	a, err := Parse(data, "a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Parse(data, "b")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
}

func TestIDs(t *testing.T) {
	s := parseOne(t, head+"spec: {image: i}\n")
	if s.ID != SessionID("demo") || s.Spec.Kernels[0] != KernelID(s.ID, "main1") {
		t.Errorf("session %s, kernels %v", s.ID, s.Spec.Kernels)
	}
	if u := uuid.MustParse(s.ID); u.Version() != 5 {
		t.Errorf("version %d, want 5", u.Version())
	}
	if KernelID("no uuid", "main1") != "" {
		t.Error("an ID was made from a session ID that is no UUID")
	}
	own := uuid.NewString()
	s = parseOne(t, strings.Replace(head, "name: demo", "name: demo, id: "+own, 1)+"spec: {image: i}\n")
	if s.ID != own {
		t.Errorf("got %s, want the given %s", s.ID, own)
	}
}

func TestInheritance(t *testing.T) {
	s := parseOne(t, head+`spec:
  image: base
  slots: {cpu: 2, mem: 1g}
  environ: {A: all, B: all}
  command: [sleep, "1"]
  sudo: true
  replicas:
  - {role: main}
  - role: sub
    count: 2
    image: other
    pull: tag
    slots: {cpu: "0.5"}
    environ: {B: sub}
    command: []
    sudo: false
`)
	main, sub := s.Kernels[KernelID(s.ID, "main1")], s.Kernels[KernelID(s.ID, "sub2")]
	if main.Image.Canonical != "base" || !main.Image.Local || main.Image.Pull != apis.PullNone || !main.Sudo || len(main.Command) != 2 {
		t.Errorf("main: %+v", main)
	}
	if sub.Image.Canonical != "other" || sub.Image.Local || sub.Image.Pull != apis.PullTag || sub.Sudo || len(sub.Command) != 0 {
		t.Errorf("sub: %+v", sub)
	}
	if want := map[string]string{"cpu": "0.5", "mem": "1073741824"}; !reflect.DeepEqual(sub.Slots, want) {
		t.Errorf("slots %v, want %v", sub.Slots, want)
	}
	if sub.Environ["A"] != "all" || sub.Environ["B"] != "sub" || main.Environ["B"] != "all" {
		t.Errorf("environ of main %v, of sub %v", main.Environ, sub.Environ)
	}
}

func TestUserCannotForgeVariables(t *testing.T) {
	s := parseOne(t, head+"spec: {image: i, environ: {BACKENDAI_KERNEL_ID: forged, BACKENDAI_CLUSTER_SIZE: \"9\"}}\n")
	k := s.Kernels[s.Spec.Kernels[0]]
	if k.Environ["BACKENDAI_KERNEL_ID"] != s.Spec.Kernels[0] || k.Environ["BACKENDAI_CLUSTER_SIZE"] != "1" {
		t.Errorf("environ %v", k.Environ)
	}
}

func TestNetworks(t *testing.T) {
	id := SessionID("demo")
	own := apis.NetworkAttachment{Mode: apis.NetworkBridge, Name: "bai-singlenode-" + id, Managed: true}
	for text, want := range map[string]apis.NetworkAttachment{
		"spec: {image: i}\n":                                                 {},
		"spec: {image: i, network: {mode: bridge}}\n":                        own,
		"spec: {image: i, replicas: [{role: main, count: 2}]}\n":             own,
		"spec: {image: i, network: {mode: host}}\n":                          {Mode: apis.NetworkHost},
		"spec: {image: i, network: {mode: overlay, name: net1}}\n":           {Mode: apis.NetworkOverlay, Name: "net1"},
		"spec: {image: i, replicas: [{role: sub}, {role: main}], network: }": own,
	} {
		if got := parseOne(t, head+text).Spec.Network; got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}

func TestNewKeyPair(t *testing.T) {
	pair, err := newKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey([]byte(pair.Private.Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	public, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(pair.Public))
	if err != nil {
		t.Fatal(err)
	}
	if comment != "work@cluster.backend.ai.local" || string(public.Marshal()) != string(signer.PublicKey().Marshal()) {
		t.Errorf("public %q does not fit", pair.Public)
	}
}

func TestExamplesParse(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatal("examples are missing", files, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(data, filepath.Base(f)); err != nil {
			t.Error(err)
		}
	}
}

// sameAfterCheckpoint makes sure that a stored session still equals its file.
func sameAfterCheckpoint(t *testing.T, s Session) {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Session
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s, back) {
		t.Errorf("the checkpoint changes it:\n%s", cmp.Diff(s, back))
	}
}

func TestEmptyListsSurviveTheCheckpoint(t *testing.T) {
	sameAfterCheckpoint(t, parseOne(t, head+"spec: {image: i, command: [], mounts: [], preopenPorts: [], environ: {}, slots: {}, dotfiles: [], replicas: []}\n"))
	sameAfterCheckpoint(t, parseOne(t, string(example(t))))
}

func example(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../examples/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzParse looks for files that crash the daemon, and for sessions that pass
// although the door would refuse them.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../../../examples/*.yaml", "testdata/session/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Parse(data, "f")
		if err != nil && !errors.Is(err, apis.ErrInvalid) {
			t.Errorf("not of class ErrInvalid: %v", err)
		}
		if err == nil && len(list) == 0 {
			t.Error("neither a session nor a problem")
		}
		for _, s := range list {
			sameAfterCheckpoint(t, s)
			if err := apis.ValidateSession(s.ID, s.Spec, s.Kernels); err != nil {
				t.Error(err)
			}
			if len(s.Spec.Kernels) != s.Spec.Size || len(s.Kernels) != s.Spec.Size {
				t.Errorf("%d kernels, size %d", len(s.Kernels), s.Spec.Size)
			}
		}
	})
}
