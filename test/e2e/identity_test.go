// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// withWork is an image with a user work of its own, and a group that has number 20.
const withWork = `FROM ` + busybox + `
RUN echo 'work:x:1000:1000::/home/work:/bin/sh' >>/etc/passwd && echo 'work:x:1000:' >>/etc/group && echo 'dialout:x:20:' >>/etc/group \
 && mkdir -p /home/work/.ssh && echo old >/home/work/.ssh/authorized_keys && chown -R 1000:1000 /home/work
`

// TestIdentity: inside, people are who the configuration or the session says, whatever the image has (B012).
func TestIdentity(t *testing.T) {
	t.Parallel()
	img := image(t, "work", withWork)
	for _, conf := range []struct{ uid, gid int }{{2001, 2001}, {0, 0}, {20, 20}} {
		t.Run(fmt.Sprint(conf.uid), func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, with("container.kernel-uid", fmt.Sprint(conf.uid)), with("container.kernel-gid", fmt.Sprint(conf.gid)))
			// The first kernel is as configured, the second has an owner of its own.
			file := a.apply("three", strings.Replace(session(a.name("three"), img, 0), "    - {role: main}\n",
				"    - {role: main}\n    - {role: sub, uid: 3005, gid: 3006}\n", 1))
			for host, id := range map[string]string{"main1": fmt.Sprintf("%d %d", conf.uid, conf.gid), "sub1": "3005 3006"} {
				const who = `echo $(id -u) $(id -g) $(grep -c ^work: /etc/passwd); touch /home/work/x; stat -c '%u %g' /home/work /home/work/x`
				want := strings.Join([]string{id + " 1", id, id}, "\n")
				if got := a.sh(a.at(host), who); got != want {
					t.Errorf("%s: %q, want %q", host, got, want)
				}
				if got := a.sh(a.at(host), "ssh "+host+" \""+who+"\""); got != want {
					t.Errorf("%s, by SSH: %q, want %q", host, got, want)
				}
				if got := a.sh(a.at(host), "awk '/^Uid|^Gid/ {print $2}' /proc/$(pidof bai-runner | awk '{print $1}')/status"); got != strings.Replace(id, " ", "\n", 1) {
					t.Errorf("%s: the runner is %q, want %q", host, got, id)
				}
			}
			if got := a.sh(a.at("main1"), "ssh sub1 id -u; ssh sub1 ssh main1 id -u"); got != fmt.Sprintf("3005\n%d", conf.uid) {
				t.Errorf("ssh between different users: %q", got)
			}
			a.must("delete", "-f", file)
			a.mustBeClean()
		})
	}
}

// odd are images that made the reference fail: customised ones (B074), and such without labels or with an entrypoint (B010).
var odd = map[string]string{
	"locked": "FROM " + busybox + "\nRUN echo 'work:x:1000:1000::/home/work:/bin/sh' >>/etc/passwd && echo 'root:*:1::::::' >/etc/shadow" +
		" && echo 'work:!:1:0:99999:7::1:' >>/etc/shadow && chmod 600 /etc/shadow\n",
	"pathed":   "FROM " + busybox + "\nRUN mkdir -p /opt/x/bin && printf '#!/bin/sh\\necho tool\\n' >/opt/x/bin/tool && chmod 755 /opt/x/bin/tool\nENV PATH=/opt/x/bin\n",
	"custom":   "FROM " + busybox + "\nRUN mkdir -p /home/custom && echo 'work:x:1000:1000::/home/custom:/bin/sh' >>/etc/passwd && chown 1000 /home/custom\n",
	"refusing": "FROM " + busybox + "\nENTRYPOINT [\"/bin/false\"]\nCMD [\"--no\"]\n",
	"unknown":  "FROM " + busybox + "\nLABEL ai.backend.base-distro=plan9 ai.backend.kernelspec=99 ai.backend.role=NONSENSE ai.backend.features= ai.backend.resource.min.cpu=many\n",
}

// TestOddImages starts every one of them in one session, where each reaches main and is reached from it.
func TestOddImages(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	roles := "    - {role: main}\n    - {role: musl, image: " + musl + "}\n"
	names := []string{"musl"}
	for _, name := range sorted(odd) {
		roles += fmt.Sprintf("    - {role: %s, image: %s}\n", name, image(t, name, odd[name]))
		names = append(names, name)
	}
	// An import without any configuration: no labels, command or environment.
	const imported = "agentd.local/e2e-imported:1"
	container := a.docker("create", busybox)
	if out, err := exec.Command("sh", "-c", "docker export "+container+" | docker import - "+imported).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", "-f", imported).Run() })
	a.docker("rm", container)
	roles += "    - {role: imported, image: " + imported + "}\n"
	names = append(names, "imported")

	text := strings.Replace(session(a.name("three"), busybox, 0), "    - {role: main}\n", roles, 1)
	file := a.apply("three", strings.Replace(text, "128m", "32m", 1))
	for _, name := range names {
		host := name + "1"
		uid := "1000"
		if name == "unknown" {
			uid = "9001" // its features do not allow the node's own user
		}
		got := a.sh(a.at("main1"), "ssh "+host+` '/bin/hostname; /bin/busybox id -u; echo $HOME; /bin/pwd; echo $PATH; echo $BACKENDAI_CLUSTER_ROLE'`)
		f := strings.Split(got, "\n")
		if len(f) != 6 || f[0] != host || f[1] != uid || f[2] != "/home/work" || f[3] != "/home/work" || f[5] != name {
			t.Errorf("%s by SSH: %q", host, got)
		}
		if name == "pathed" && !slices.Contains(strings.Split(f[4], ":"), "/opt/x/bin") {
			t.Errorf("the image's PATH is lost: %q", f[4])
		}
		got = a.sh(a.at("main1"), fmt.Sprintf(`echo %[1]s >file-%[1]s
scp -q file-%[1]s %[1]s:copy
scp -q %[1]s:copy back-%[1]s
cat back-%[1]s
ssh %[1]s ssh main1 hostname
ssh %[1]s 'echo back >made; scp -q made main1:made-%[1]s; scp -q main1:file-%[1]s again; /bin/cat again'
cat made-%[1]s`, host))
		if want := strings.Join([]string{host, "main1", host, "back"}, "\n"); got != want {
			t.Errorf("%s: copies %q, want %q", host, got, want)
		}
		want := "main1"
		if r := a.in(a.at(host), "/bin/sh", "-c", "ssh main1 hostname"); strings.TrimSpace(r.out) != want || r.code != 0 {
			t.Errorf("%s, by agentd exec: %+v", host, r)
		}
	}
	if got := a.sh(a.at("main1"), "ssh pathed1 tool"); got != "tool" {
		t.Errorf("a program in the image's own PATH: %q", got)
	}
	a.must("delete", "-f", file)
	a.mustBeClean()
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// TestUmask: owners and modes of a kernel's files do not depend on how agentd was started (B071).
func TestUmask(t *testing.T) {
	for _, mask := range []int{0o000, 0o077} {
		t.Run(fmt.Sprintf("%03o", mask), func(t *testing.T) {
			a := prepareAgent(t, with("container.kernel-uid", "2001"), with("container.kernel-gid", "2001"))
			old := syscall.Umask(mask)
			a.start()
			syscall.Umask(old)
			file := a.apply("three", session(a.name("three"), busybox, 1, "dotfiles: [{path: .config/app/key, perm: \"0600\", data: x}, {path: run, perm: \"0755\", data: y}]"))
			got := a.sh(a.at("main1"), `cd /home
stat -c '%a %u %g %n' config config/ssh config/environ.txt config/environ.json config/resource.txt config/ssh/id_cluster config/ssh/id_cluster.pub \
  work work/.ssh work/.ssh/authorized_keys work/.ssh/config work/id_container work/.bashrc work/.config work/.config/app work/.config/app/key work/run
ssh -o BatchMode=yes -o StrictHostKeyChecking=no -i /home/work/id_container -p 2200 localhost id -u
ssh sub1 id -g`)
			want := `750 0 2001 config
700 2001 2001 config/ssh
640 0 2001 config/environ.txt
640 0 2001 config/environ.json
640 0 2001 config/resource.txt
600 2001 2001 config/ssh/id_cluster
644 2001 2001 config/ssh/id_cluster.pub
755 2001 2001 work
700 2001 2001 work/.ssh
600 2001 2001 work/.ssh/authorized_keys
600 2001 2001 work/.ssh/config
600 2001 2001 work/id_container
644 2001 2001 work/.bashrc
755 2001 2001 work/.config
755 2001 2001 work/.config/app
600 2001 2001 work/.config/app/key
755 2001 2001 work/run
2001
2001`
			if got != want {
				t.Errorf("owners and modes:\n%s\nwant:\n%s", got, want)
			}
			a.must("delete", "-f", file)
			a.mustBeClean()
		})
	}
}

// TestOthersSeeNothing: nobody else on the node, nor another kernel's user, reads a kernel's keys, environment or sockets, and its
// own user cannot write what agentd wrote (B136).
func TestOthersSeeNothing(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	if err := os.Chmod(a.dir, 0o755); err != nil { // what protects them must not be the test's own directory
		t.Fatal(err)
	}
	file := a.apply("three", strings.Replace(session(a.name("three"), busybox, 0, "environ: {SECRET: hush}"), "    - {role: main}\n",
		"    - {role: main, uid: 2001, gid: 2001}\n    - {role: sub, uid: 2002, gid: 2002}\n", 1))
	mine := a.path("scratches", a.kernel("main1"))
	for _, who := range []uint32{2002, 65534} {
		seen := 0
		err := filepath.WalkDir(a.dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			below := strings.HasPrefix(path, mine) || strings.HasPrefix(path, a.path("state")) || path == a.path("agentd.sock")
			if path == a.dir || !below {
				return nil
			}
			seen++
			cmd := exec.Command("sh", "-c", `if [ -d "$1" ]; then ls "$1"; else cat "$1"; fi`, "sh", path)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: who, Gid: who}}
			if out, err := cmd.Output(); err == nil || len(out) > 0 {
				t.Errorf("user %d reads %s: %q", who, path, out)
			}
			return nil
		})
		if err != nil || seen < 15 {
			t.Errorf("looked at %d files, %v", seen, err)
		}
	}
	if err := os.Chmod(filepath.Dir(agentd), 0o755); err != nil {
		t.Fatal(err)
	}
	// Who may not open the socket may not command the daemon.
	for _, who := range []uint32{2001, 65534} {
		cmd := exec.Command(agentd, "get", "kernels")
		cmd.Env, cmd.Dir = a.env(), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: who, Gid: who}}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "agentd.sock") {
			t.Errorf("user %d may talk to the daemon, or is not told why not: %v, %q", who, err, out)
		}
	}
	got := a.sh(a.at("main1"), `
for f in /home/config/new /home/config/environ.txt /home/config/resource.txt /home/config/ssh/id_cluster /home/config/ssh/new /opt/kernel/bai-runner /opt/kernel/new; do
  if ( echo x >>$f ) 2>/dev/null; then echo writes $f; fi
done
if cat /proc/1/environ 2>/dev/null; then echo reads the environment of init; fi
grep -c ' /home/config [^ ]* ro,' /proc/mounts`)
	if got != "1" {
		t.Errorf("inside, the user %q", got)
	}
	if root := a.run("exec", "--root", a.at("main1"), "--", "sh", "-c", "echo x >>/home/config/environ.txt"); root.code == 0 {
		t.Error("root inside writes what agentd wrote")
	}
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// TestMounts: people's folders arrive where they shall, impossible targets are refused before anything happens (B008), and a
// folder of keys is left as it is (B071).
func TestMounts(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	data, keys := a.path("data"), a.path("keys")
	for _, dir := range []string{data, keys} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"data/file": "theirs\n", "keys/authorized_keys": "# mine\n", "keys/config": "# my hosts\n"} {
		if err := os.WriteFile(a.path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, mounts := range []string{
		"[{source: %[1]s, target: /home/work}]",
		"[{source: %[1]s, target: /home/work/a}, {source: %[2]s, target: /home/work/a}]",
		"[{source: %[1]s, target: /home/work/a}, {source: %[2]s, target: /home/work/a/}]",
		"[{source: %[1]s, target: /home/work/../work}]",
		"[{source: %[1]s, target: /home/config/ssh}]",
		"[{source: %[1]s, target: /opt/kernel/run}]",
		"[{source: %[1]s, target: data}]",
		"[{source: data, target: /data/../../x}]",
		"[{source: %[1]s/../keys, target: /data}]",
	} {
		text := session(a.name("three"), busybox, 0, "mounts: "+strings.NewReplacer("%[1]s", data, "%[2]s", keys).Replace(mounts))
		a.want(a.run("apply", "-f", a.file("bad", text)), 1, "", "mount")
	}
	if s := a.state(); s.events > 0 || len(a.get("kernels")) > 0 {
		t.Errorf("refused mounts left something: %+v", s)
	}
	for _, image := range []string{busybox, python} { // our SSH client, and the image's own
		file := a.apply("three", session(a.name("three"), image, 0, fmt.Sprintf(`mounts:
  - {source: %[1]s, target: /home/work/a}
  - {source: %[1]s, target: /mnt/b, readOnly: true}
  - {source: %[2]s, target: /home/work/.ssh}`, data, keys)))
		if got := a.sh(a.at("main1"), "cat a/file /mnt/b/file; if ( echo x >/mnt/b/new ) 2>/dev/null; then echo writes; fi; ssh main1 hostname"); got != "theirs\ntheirs\nmain1" {
			t.Errorf("%s: mounts inside: %q", image, got)
		}
		a.must("delete", "-f", file)
		a.mustBeClean()
	}
	for name, want := range map[string]string{
		"data": "drwxr-xr-x", "keys": "drwxr-xr-x",
		"data/file": "-rw-r--r-- theirs\n", "keys/authorized_keys": "-rw-r--r-- # mine\n", "keys/config": "-rw-r--r-- # my hosts\n",
	} {
		info, err := os.Stat(a.path(name))
		if err != nil {
			t.Error(err)
			continue
		}
		got := info.Mode().String()
		if !info.IsDir() {
			text, _ := os.ReadFile(a.path(name))
			got += " " + string(text)
		}
		if got != want || info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%s is now %q of user %d, was %q of root", name, got, info.Sys().(*syscall.Stat_t).Uid, want)
		}
	}
	if entries, err := os.ReadDir(keys); err != nil || len(entries) != 2 {
		t.Errorf("the folder of keys has %v, %v", entries, err)
	}
}
