// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"errors"
	"path/filepath"
	"strings"

	"agentd/runner-bin/internal/layout"
)

// commandLine decides what to execute for a command, or for a login when it is empty. Without a shell in the image the
// words of the command are executed directly. It returns a sentence for the user when nothing can be.
func commandLine(config *Config, command, path string) (program string, argv []string, problem string) {
	if command == "" {
		if config.Shell == "" {
			return "", nil, "this image has no shell to log in to; give a command: ssh HOST PROGRAM [ARGUMENT]..."
		}
		return config.Shell, []string{"-" + filepath.Base(config.Shell)}, ""
	}
	if self, ok := ownCommand(config, command, path); ok {
		return self[0], self, ""
	}
	if config.Shell != "" {
		return config.Shell, []string{filepath.Base(config.Shell), "-c", command}, ""
	}
	words, err := splitWords(command)
	if err != nil {
		return "", nil, "this image has no shell, and the command cannot be run without one: " + err.Error()
	}
	program, ok := layout.Layout{}.FindProgram(words[0], path)
	if !ok {
		return "", nil, words[0] + ": not found (this image has no shell)"
	}
	return program, words, ""
}

// ownCommand answers the server side of scp and sftp where the image has neither, for example because its file system
// is read only and took no links to this binary.
func ownCommand(config *Config, command, path string) ([]string, bool) {
	words, err := splitWords(command)
	if err != nil || len(config.Self) == 0 {
		return nil, false
	}
	switch name := filepath.Base(words[0]); name {
	case "scp", "sftp-server":
		if _, found := (layout.Layout{}).FindProgram(words[0], path); found {
			return nil, false
		}
		return append(append(append([]string(nil), config.Self...), name), words[1:]...), true
	}
	return nil, false
}

var errNeedsShell = errors.New("it uses shell syntax")

// splitWords splits a command as a POSIX shell would, as far as quotes go. What only a shell can do is an error: doing
// less than was asked would be worse.
func splitWords(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	quote := byte(0)
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case quote == '\'' && c == '\'', quote == '"' && c == '"':
			quote = 0
		case quote == '\'':
			word.WriteByte(c)
		case c == '\\' && i+1 < len(command) && (quote == 0 || strings.IndexByte("$`\"\\", command[i+1]) >= 0):
			i++
			inWord = true
			word.WriteByte(command[i])
		case c == '$' || c == '`':
			return nil, errNeedsShell
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case strings.IndexByte("|&;<>()*?[#~{}!", c) >= 0 && !(inWord && strings.IndexByte("#~{}!", c) >= 0):
			return nil, errNeedsShell
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("it is empty")
	}
	return words, nil
}
