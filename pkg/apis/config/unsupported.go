// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	"agentd/pkg/apis"
)

// Unsupported returns one error for every value that is a valid one of its key
// and asks for what this version of agentd cannot do. A process that runs
// kernels must not start with any: it would run them in another way than the
// operator asked for. The errors are of class [apis.ErrInvalid]; none means
// that all is well.
func (c *Config) Unsupported() []error {
	var errs []error
	refuse := func(key, value, text string) {
		errs = append(errs, fmt.Errorf("%s: %q is known, but %w here: %s", key, value, apis.ErrInvalid, text))
	}
	if b := c.Agent.Backend; b != BackendDocker {
		refuse("agent.backend", string(b), `agentd runs kernels only on "docker"; set it, or leave this node to another agent`)
	}
	if s := c.Container.SandboxType; s != SandboxDocker {
		refuse("container.sandbox-type", string(s), `agentd has no jail; set "docker", or leave the key out`)
	}
	if s := c.Container.ScratchType; s != ScratchHostDir {
		refuse("container.scratch-type", string(s), `agentd makes scratches only as directories; set "hostdir", or leave the key out`)
	}
	return errs
}
