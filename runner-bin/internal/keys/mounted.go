// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentd/runner-bin/internal/layout"
)

// systemConfig is read by every SSH client after the user's own configuration.
const systemConfig = "/etc/ssh/ssh_config"

// Mounted tells whether ~/.ssh is a folder that the user mounted there. Its content is theirs: it may serve several
// sessions at once, or be read only.
func Mounted(l layout.Layout) bool {
	data, err := os.ReadFile(l.At("/proc/self/mountinfo"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == layout.UserSSH {
			return true
		}
	}
	return false
}

// SystemConfig names the session's other kernels in the image's own configuration of SSH clients, which needs root. It
// is for kernels whose ~/.ssh is not ours to write.
func SystemConfig(l layout.Layout, get func(string) string) error {
	cluster, present, err := ReadCluster(l, get)
	if err != nil || !present {
		return err
	}
	path := l.At(systemConfig)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create %s: %w", filepath.Dir(systemConfig), err)
	}
	return editBlockAs(path, cluster.clientConfig(layout.SSHPort), true, 0o644)
}
