// SPDX-License-Identifier: Apache-2.0

package config

import _ "embed" // for the sample

//go:embed sample.toml
var sample string

// Sample returns a commented agent.toml that sets nothing but defaults.
func Sample() string { return sample }
