// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	idPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
	hostPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	envPattern  = regexp.MustCompile(`^[^=\x00]+$`)
	slotPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*$`)
	rolePattern = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z-])?$`)
)

// intrinsicTargets are the paths that agentd itself mounts into a kernel.
var intrinsicTargets = []string{
	"/", "/home", "/home/work", "/home/config", "/opt", "/opt/kernel", "/etc", "/etc/localtime", "/etc/timezone",
	"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/etc/group", "/etc/shadow",
	"/proc", "/sys", "/dev", "/dev/shm", "/tmp/.bai",
}

// ValidateName refuses names that could escape a directory, a label or a log line.
func ValidateName(what, name string) error {
	if !idPattern.MatchString(name) || strings.Contains(name, "..") {
		return fmt.Errorf("%s %q: %w: letters, digits, \".\", \"_\" and \"-\" only, at most 128, not beginning with a sign, no \"..\"", what, name, ErrInvalid)
	}
	return nil
}

// ValidateSession checks a session and all its kernels together before
// anything is stored. It returns every problem, each naming the field.
func ValidateSession(id string, s ClusterSessionSpec, kernels map[string]KernelSpec) error {
	errs := []error{ValidateName("session ID", id)}
	if len(kernels) == 0 {
		errs = append(errs, fmt.Errorf("session %s: %w: it has no kernels", id, ErrInvalid))
	}
	total := 0
	for role, n := range s.Replicas {
		total += n
		if !rolePattern.MatchString(role) || n < 1 {
			errs = append(errs, fmt.Errorf("session %s: replicas[%s]=%d: %w: a role is lower-case letters, digits and \"-\" and has at least one kernel", id, role, n, ErrInvalid))
		}
	}
	if s.Size != total {
		errs = append(errs, fmt.Errorf("session %s: size %d: %w: the replicas add up to %d", id, s.Size, ErrInvalid, total))
	}
	hosts := map[string]string{}
	for _, kid := range slices.Sorted(maps.Keys(kernels)) {
		k := kernels[kid]
		errs = append(errs, ValidateKernel(kid, k))
		if other, dup := hosts[k.Hostname]; dup {
			errs = append(errs, fmt.Errorf("kernels %s and %s: hostname %q: %w: hostnames are unique in a session", other, kid, k.Hostname, ErrInvalid))
		}
		hosts[k.Hostname] = kid
	}
	return errors.Join(errs...)
}

// ValidateKernel checks one kernel. It returns every problem, each naming the field.
func ValidateKernel(id string, k KernelSpec) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("kernel %s: "+format+": %w", append(append([]any{id}, args...), ErrInvalid)...))
	}
	if err := ValidateName("kernel ID", id); err != nil {
		errs = append(errs, err)
	}
	if strings.Contains(id, ".") { // it is the last dot-separated part of the container's name (26.8)
		bad("the ID has no \".\"")
	}
	if !hostPattern.MatchString(k.Hostname) {
		bad("hostname %q: lower-case letters, digits and \"-\", at most 63", k.Hostname)
	}
	if k.Image.Canonical == "" {
		bad("image: a reference such as registry/project/name:tag is needed")
	}
	if strings.ContainsFunc(k.Image.Canonical, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		bad("image %q: blanks and control characters are not allowed", k.Image.Canonical)
	}
	switch k.Image.Pull {
	case "", PullDigest, PullTag, PullNone:
	default:
		bad("image: pull policy %q: known are digest, tag and none", k.Image.Pull)
	}
	if k.Incarnation < 1 {
		bad("incarnation %d: it counts from 1", k.Incarnation)
	}
	for _, name := range slices.Sorted(maps.Keys(k.Slots)) {
		if !slotPattern.MatchString(name) {
			bad("slot %q: slot names look like \"cpu\", \"mem\" or \"cuda.shares\"", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.Environ)) {
		if !envPattern.MatchString(name) || strings.ContainsRune(k.Environ[name], 0) {
			bad("environ %q: names have no \"=\", and nothing holds a zero byte", name)
		}
	}
	if k.ShmBytes < 0 {
		bad("shared memory of %d bytes: it cannot be negative", k.ShmBytes)
	}
	for what, v := range map[string]*int{"uid": k.UID, "gid": k.GID} {
		if v != nil && (*v < 0 || *v > 1<<31-2) {
			bad("%s %d: it lies between 0 and 2147483646", what, *v)
		}
	}
	errs = append(errs, validateMounts(id, k.Mounts), validateDotfiles(id, k.Dotfiles))
	return errors.Join(errs...)
}

// validateMounts refuses targets that agentd needs itself, and targets given twice.
func validateMounts(id string, mounts []Mount) error {
	var errs []error
	seen := map[string]string{}
	for _, m := range mounts {
		bad := func(why string) {
			errs = append(errs, fmt.Errorf("kernel %s: mount %s at %q: %w: %s", id, m.Source, m.Target, ErrInvalid, why))
		}
		target := path.Clean(m.Target)
		switch {
		case !path.IsAbs(m.Target):
			bad("the target is an absolute path inside the kernel")
		case strings.ContainsFunc(m.Target+m.Source, func(r rune) bool { return r < ' ' || r == 0x7f }):
			bad("control characters are not allowed")
		case slices.Contains(intrinsicTargets, target) || strings.HasPrefix(target, "/opt/kernel/") || strings.HasPrefix(target, "/home/config/"):
			bad("agentd itself mounts something there")
		case target != m.Target && strings.Contains(m.Target, ".."):
			bad("the target must not contain \"..\"")
		case seen[target] != "":
			bad("the same target is already used for " + seen[target])
		case m.Source == "":
			bad("the source is missing")
		case strings.Contains(m.Source, "/") && (!path.IsAbs(m.Source) || strings.Contains(m.Source, "/../") || strings.HasSuffix(m.Source, "/..")):
			bad("the source is an absolute host path without \"..\"")
		}
		seen[target] = m.Source
	}
	return errors.Join(errs...)
}

// validateDotfiles refuses paths that would leave the home directory.
func validateDotfiles(id string, files []Dotfile) error {
	var errs []error
	for _, f := range files {
		p := DotfilePath(f.Path)
		if p == "" {
			errs = append(errs, fmt.Errorf("kernel %s: dotfile %q: %w: it must lie below /home/work", id, f.Path, ErrInvalid))
		}
		if _, err := ParseMode(f.Perm); err != nil {
			errs = append(errs, fmt.Errorf("kernel %s: dotfile %q: %w", id, f.Path, err))
		}
	}
	return errors.Join(errs...)
}

// DotfilePath returns a dotfile's path relative to the home directory, or
// nothing when it would leave it.
func DotfilePath(p string) string {
	if strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ""
	}
	if path.IsAbs(p) {
		rest, ok := strings.CutPrefix(path.Clean(p), "/home/work/")
		if !ok {
			return ""
		}
		return rest
	}
	p = path.Clean(p)
	if p == "." || p == ".." || strings.HasPrefix(p, "../") {
		return ""
	}
	return p
}

// ParseMode reads an octal permission such as "0644" or "755".
func ParseMode(s string) (uint32, error) {
	if s == "" {
		return 0, fmt.Errorf("permission %q: %w: an octal number such as 0644 is needed", s, ErrInvalid)
	}
	var m uint32
	for _, c := range s {
		if c < '0' || c > '7' || m > 0o777 {
			return 0, fmt.Errorf("permission %q: %w: an octal number such as 0644 is needed", s, ErrInvalid)
		}
		m = m<<3 | uint32(c-'0')
	}
	if m > 0o777 {
		return 0, fmt.Errorf("permission %q: %w: only the nine permission bits can be given", s, ErrInvalid)
	}
	return m, nil
}
