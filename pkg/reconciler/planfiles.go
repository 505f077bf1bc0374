// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentd/pkg/apis"
	"agentd/pkg/netplan"
)

// userSSHDir is where a kernel's user has the keys; a folder mounted there brings its own.
const userSSHDir = "/home/work/.ssh"

// sudoers lets the kernel's user become root without a password; bai-runner puts
// it where the image's sudo reads it. Only the request decides: an environment
// variable of the user's cannot.
const sudoers = "work ALL=(ALL:ALL) NOPASSWD:ALL\n"

// addConfig adds the files of config/, which the kernel reads and cannot write
// (kernel-lifecycle 1.8). Secrets are readable by the kernel's group at most.
func addConfig(in planInput, set Settings, add func(path string, mode uint32, owner int, content string)) error {
	uid, _ := identityOf(in.kernel, in.image, set).owner()
	env := environOf(in, set)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		// The format has no escapes: what does not fit on a line is in the JSON form only.
		if !strings.ContainsAny(name+env[name], "\n\r") {
			fmt.Fprintf(&text, "%s=%s\n", name, env[name])
		}
	}
	asJSON, err := json.Marshal(env)
	if err != nil {
		return fmt.Errorf("environ.json: %w", err)
	}
	resources, err := resourceText(in, set)
	if err != nil {
		return err
	}
	bare := in
	bare.containerID = ""
	base, err := resourceText(bare, set)
	if err != nil {
		return err
	}
	add(configDir+"/environ.txt", 0o640, 0, text.String())
	add(configDir+"/environ_base.txt", 0o640, 0, text.String())
	add(configDir+"/environ.json", 0o640, 0, string(asJSON))
	add(configDir+"/resource.txt", 0o640, 0, resources)
	add(configDir+"/resource_base.txt", 0o640, 0, base)
	if in.session.Spec.Network.Mode == apis.NetworkHost {
		name, content, err := intrinsicPorts(in)
		if err != nil {
			return err
		}
		add(configDir+"/"+name, 0o640, 0, content)
	}
	if c := in.kernel.Spec.DockerCredentials; len(c) > 0 {
		plain := make(map[string]string, len(c))
		for k, v := range c {
			plain[k] = v.Reveal()
		}
		b, err := json.Marshal(plain)
		if err != nil {
			return fmt.Errorf("docker-creds.json: %w", err)
		}
		add(configDir+"/docker-creds.json", 0o640, 0, string(b))
	}
	if in.kernel.Spec.Sudo {
		add(configDir+"/sudoers", 0o440, 0, sudoers)
	}
	return addClusterKeys(in, uid, add)
}

// addClusterKeys adds what the kernels of a session need to reach each other by SSH.
func addClusterKeys(in planInput, uid int, add func(path string, mode uint32, owner int, content string)) error {
	var pair *netplan.KeyPair
	if k := in.session.Spec.KeyPair; k != nil {
		pair = &netplan.KeyPair{Public: k.Public, Private: k.Private.Reveal()}
	}
	mapping, err := portMapping(in)
	if err != nil {
		return err
	}
	files, err := netplan.SSHFiles(pair, "", mapping)
	if err != nil {
		return apis.Terminal(apis.ReasonInvalid, err)
	}
	for _, f := range files {
		add(configDir+"/"+f.Path, uint32(f.Mode.Perm()), uid, string(f.Content))
	}
	return nil
}

// hasUserKeys tells that the user's own keys are to be put in place.
func hasUserKeys(k *apis.Kernel) bool {
	return k.Spec.UserKeyPair != nil &&
		!slices.ContainsFunc(k.Spec.Mounts, func(m apis.Mount) bool { return m.Target == userSSHDir })
}

// homeFiles are the files of the home directory. They are written once: the
// user may change them. Later dotfiles win.
func homeFiles(k *apis.Kernel) []apis.ScratchFile {
	byPath := map[string]apis.ScratchFile{}
	put := func(p string, mode uint32, content apis.Secret) {
		p = workDir + "/" + p
		byPath[p] = apis.ScratchFile{Path: p, Mode: mode, Content: content}
	}
	for name, content := range defaultDotfiles() {
		put(name, 0o644, apis.Secret(content))
	}
	if k.Spec.BootstrapScript != "" {
		put("bootstrap.sh", 0o644, apis.Secret(k.Spec.BootstrapScript))
	}
	if hasUserKeys(k) {
		put(".ssh/authorized_keys", 0o600, apis.Secret(line(k.Spec.UserKeyPair.Public)))
		put(".ssh/id_rsa", 0o600, k.Spec.UserKeyPair.Private)
		put("id_container", 0o600, k.Spec.UserKeyPair.Private)
	}
	for _, d := range k.Spec.Dotfiles {
		mode, err := apis.ParseMode(d.Perm)
		if p := apis.DotfilePath(d.Path); p != "" && err == nil { // intake has refused the others
			put(p, mode, apis.Secret(line(d.Data.Reveal())))
		}
	}
	out := make([]apis.ScratchFile, 0, len(byPath))
	for _, p := range slices.Sorted(maps.Keys(byPath)) {
		out = append(out, byPath[p])
	}
	return out
}

// line ends text with a newline.
func line(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// defaultDotfiles are what every home directory starts with.
func defaultDotfiles() map[string]string {
	return map[string]string{
		".bashrc": `# Read by interactive shells of this kernel.
alias ls='ls --color=auto'
PS1='\u@\h:\w\$ '
[ -f "$HOME/.bashrc.local" ] && . "$HOME/.bashrc.local"
`,
		".bash_profile": `[ -f "$HOME/.bashrc" ] && . "$HOME/.bashrc"
`,
		".zshrc": `PROMPT='%n@%m:%~%# '
`,
		".vimrc": `set nocompatible
`,
		".tmux.conf": `set -g default-terminal "screen-256color"
`,
		"DO_NOT_STORE_PERSISTENT_FILES_HERE.md": `# This directory is temporary

Everything here is removed when the session ends. Keep files in your mounted
folders.
`,
	}
}
