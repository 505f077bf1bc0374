// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

const (
	workDir     = "/home/work"
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// suExec is the runner's program that becomes the kernel's user with all its groups.
	suExec = "/opt/kernel/su-exec"
	// shadowGroup lets the kernel's user check passwords (26.8).
	shadowGroup = "42"
)

var termPattern = regexp.MustCompile(`^[A-Za-z0-9+._-]{1,64}$`)

// execFor says how a command runs inside a kernel: as its user, in its home,
// with the environment that its own programs have.
func execFor(k apis.KernelSpec, c apis.ContainerSpec, imageEnv []string, req ExecRequest) runtime.ExecSpec {
	env := map[string]string{}
	for _, list := range [][]string{imageEnv, c.Env} {
		for _, e := range list {
			if name, value, ok := strings.Cut(e, "="); ok {
				env[name] = value
			}
		}
	}
	uid, gid, more := env["LOCAL_USER_ID"], env["LOCAL_GROUP_ID"], env["ADDITIONAL_GIDS"]
	maps.Copy(env, k.Environ)
	env["HOME"], env["LANG"], env["TERM"] = workDir, "C.UTF-8", "xterm"
	if termPattern.MatchString(req.Term) {
		env["TERM"] = req.Term
	}
	env["PATH"] = workDir + "/.local/bin:" + cmp.Or(env["PATH"], defaultPath)
	spec := runtime.ExecSpec{Cmd: req.Cmd, User: "0:0", WorkingDir: workDir, TTY: req.TTY, Size: req.Size}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		spec.Env = append(spec.Env, name+"="+env[name])
	}
	if req.Root || uid == "" || uid == "0" {
		return spec
	}
	gid = cmp.Or(gid, uid)
	mounted := slices.ContainsFunc(c.Mounts, func(m apis.Mount) bool { return m.Target == suExec })
	if !mounted {
		spec.User = uid + ":" + gid
		return spec
	}
	user := uid + ":" + gid
	if more != "" {
		user += "," + more
	}
	spec.Cmd = append([]string{suExec, user + "," + shadowGroup}, req.Cmd...)
	return spec
}
