// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"agentd/pkg/apis"
)

// setError shows a failed pass: Stalled when trying again is pointless.
func setError(c *apis.Conditions, m *apis.Meta, err error) {
	if t, ok := apis.AsTerminal(err); ok {
		c.SetStalled(m.Generation, t.Reason, err.Error())
		return
	}
	c.SetNotReady(m.Generation, apis.ReasonRetrying, err.Error())
}
