// SPDX-License-Identifier: Apache-2.0

package sshclient

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Options is what a command line says about reaching a host. The zero value means "as configured".
type Options struct {
	Host, User string
	Port       int
	// Identities are key files of -i.
	Identities []string
	// Values are those of -o, in order, as "Name=value".
	Values []string
	// ConfigFile replaces the user's and the system's configuration; "none" reads neither.
	ConfigFile string
	Quiet      bool
	Verbose    bool
	// Network is "tcp", or narrower after -4 or -6.
	Network string
}

// commandLine is a parsed ssh command line.
type commandLine struct {
	Options
	Command string
	// Terminal counts -t; NoTerminal is -T.
	Terminal             int
	NoTerminal, NoInput  bool
	NoCommand, Subsystem bool
	ShowVersion          bool
}

// errUsage is the class of errors after which the usage is shown.
var errUsage = errors.New("usage: ssh [-46AaCKknqTtvXxy] [-F file] [-i key] [-l user] [-o option] [-p port] [user@]host [command...]")

// withArgument are the options of OpenSSH that take one, known or not: the words after them must not be read as hosts.
const withArgument = "BbcDEeFIiJLlmOoPpQRSWw"

// ParseArgs splits options off a command line in the manner of getopt: `-tt`, `-p22`, `-p 22`, up to `--` or the first
// word that is no option. It calls set for every option and returns the words left.
func ParseArgs(args []string, withArgument string, set func(option byte, value string) error) ([]string, error) {
	for len(args) > 0 {
		word := args[0]
		if word == "--" {
			return args[1:], nil
		}
		if len(word) < 2 || word[0] != '-' {
			return args, nil
		}
		args = args[1:]
		for i := 1; i < len(word); i++ {
			option, value := word[i], ""
			if strings.IndexByte(withArgument, option) >= 0 {
				value = word[i+1:]
				if value == "" {
					if len(args) == 0 {
						return nil, fmt.Errorf("option -%c needs an argument", option)
					}
					value, args = args[0], args[1:]
				}
				i = len(word)
			}
			if err := set(option, value); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

func parseCommandLine(args []string) (commandLine, error) {
	c := commandLine{Options: Options{Network: "tcp"}}
	rest, err := ParseArgs(args, withArgument, c.set)
	if err != nil || c.ShowVersion {
		return c, err
	}
	if len(rest) == 0 {
		return c, errUsage
	}
	if err := c.SetTarget(rest[0]); err != nil {
		return c, err
	}
	// Options may follow the host, as with OpenSSH.
	if rest, err = ParseArgs(rest[1:], withArgument, c.set); err != nil {
		return c, err
	}
	c.Command = strings.Join(rest, " ")
	if c.Subsystem && c.Command == "" {
		return c, errors.New("option -s needs the name of a subsystem as command")
	}
	return c, nil
}

func (c *commandLine) set(option byte, value string) error {
	switch option {
	case 't':
		c.Terminal++
	case 'T':
		c.NoTerminal = true
	case 'n':
		c.NoInput = true
	case 'N':
		c.NoCommand = true
	case 's':
		c.Subsystem = true
	case 'V':
		c.ShowVersion = true
	case 'f', 'G', 'Q', 'L', 'R', 'D', 'W', 'w', 'O':
		return fmt.Errorf("option -%c is not supported by this built-in ssh; install openssh-client in the image for it", option)
	default:
		return c.Set(option, value)
	}
	return nil
}

// Set takes an option that means the same to ssh and its relatives, in the letters of ssh.
func (o *Options) Set(option byte, value string) error {
	switch option {
	case 'p':
		port, err := strconv.ParseUint(value, 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("bad port %q", value)
		}
		o.Port = int(port)
	case 'l':
		o.User = value
	case 'i':
		o.Identities = append(o.Identities, value)
	case 'o':
		o.Values = append(o.Values, value)
	case 'F':
		o.ConfigFile = value
	case 'J':
		o.Values = append(o.Values, "ProxyJump="+value)
	case 'q':
		o.Quiet = true
	case 'v':
		o.Verbose = true
	case '4':
		o.Network = "tcp4"
	case '6':
		o.Network = "tcp6"
	case 'A', 'a', 'x', 'X', 'Y', 'k', 'K', 'C', 'g', 'M', 'y', 'B', 'b', 'c', 'E', 'e', 'I', 'm', 'P', 'S', '1', '2':
		// About what this client does not have, or tuning: a script works the same without.
	default:
		return fmt.Errorf("unknown option -%c: %w", option, errUsage)
	}
	return nil
}

// SetTarget reads `[user@]host` or `ssh://[user@]host[:port]`. What options said already stays.
func (o *Options) SetTarget(target string) error {
	rest, isURI := strings.CutPrefix(target, "ssh://")
	rest = strings.TrimSuffix(rest, "/")
	user, host := "", rest
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, host = rest[:i], rest[i+1:]
	}
	if isURI {
		if i := strings.LastIndexByte(host, ':'); i > strings.IndexByte(host, ']') {
			if o.Port == 0 {
				if err := o.Set('p', host[i+1:]); err != nil {
					return err
				}
			}
			host = host[:i]
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" || strings.HasPrefix(host, "-") {
		return fmt.Errorf("bad host name %q", target)
	}
	if user != "" && o.User == "" {
		o.User = user
	}
	o.Host = host
	return nil
}
