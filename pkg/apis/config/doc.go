// SPDX-License-Identifier: Apache-2.0

// Package config turns agent.toml and the environment into one immutable
// [Config] value. Every key of the Backend.AI agent is accepted, in kebab-case
// and in snake_case; unknown keys are warnings, wrong values are errors that
// name the key, the line of the file and what is accepted.
//
// The Config struct is the schema. Struct tags say what the Go type cannot:
//
//	json:"port-range"     the key, in kebab-case
//	alias:"mode"          another accepted name
//	was:"kernel-host"     a retired name, accepted with a warning
//	enum:"shared|manual"  the accepted words of a text
//	range:"1..65535"      the accepted numbers, seconds or bytes; ">0.." excludes the bound
//	required:"true"       the key has no default
//	use:"later"           accepted, but nothing in agentd reads it yet
//	use:"none"            accepted, but without meaning for agentd
//
// Reading a configuration has no side effects: [Config.CreateDirs] makes the
// directories when the daemon starts.
//
// The text of an [apis.Secret] appears in no error and in no print of a Config.
package config
