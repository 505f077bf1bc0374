// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"agentd/runner-bin/internal/say"
	"agentd/runner-bin/internal/sshclient"
)

// errSFTPUsage is shown for command lines that make no sense.
var errSFTPUsage = errors.New("usage: sftp [-pqrv] [-b batchfile] [-F file] [-i key] [-o option] [-P port] [user@]host[:path]")

// sftpLine is a parsed sftp command line.
type sftpLine struct {
	sshclient.Options
	batch               string
	recursive, preserve bool
	path                string
}

func parseSFTP(args []string) (sftpLine, error) {
	var l sftpLine
	names, err := sshclient.ParseArgs(args, "BbcDFiJloPRSsX", l.set)
	if err != nil {
		return l, err
	}
	if len(names) != 1 {
		return l, errSFTPUsage
	}
	host := names[0]
	if rest, ok := strings.CutPrefix(host, "sftp://"); ok {
		host, l.path, _ = strings.Cut(rest, "/")
		host = "ssh://" + host
	} else if h, file, isRemote := splitRemote(host); isRemote {
		host, l.path = h, file
	}
	return l, l.SetTarget(host)
}

func (l *sftpLine) set(option byte, value string) error {
	switch option {
	case 'b':
		l.batch = value
		return l.Set('o', "BatchMode=yes")
	case 'r':
		l.recursive = true
	case 'p':
		l.preserve = true
	case 'P':
		return l.Set('p', value)
	case 'a', 'f', 'N', 'B', 'l', 'D', 'R', 's', 'X':
	default:
		return l.Set(option, value)
	}
	return nil
}

// SFTP is the sftp command of the process.
func SFTP(args []string) int {
	return RunSFTP(sshclient.New(say.To(os.Stderr, "sftp: ")), args, processStreams())
}

// RunSFTP carries out an sftp command line: commands come from a batch file or from the input, where a terminal gets a
// prompt. It returns 0, or 1 when the connection or, in a batch, a command failed.
func RunSFTP(client *sshclient.Client, args []string, streams Streams) int {
	line, err := parseSFTP(args)
	if err != nil {
		client.Log.Linef("%v", err)
		return 1
	}
	input, batch := streams.Stdin, line.batch != ""
	if batch && line.batch != "-" {
		file, err := os.Open(line.batch)
		if err != nil {
			client.Log.Linef("%v", err)
			return 1
		}
		defer file.Close()
		input = file
	}
	p, err := connect(client, line.Options)
	if err != nil {
		client.Log.Linef("%v", err)
		return 1
	}
	defer p.close()
	home, err := p.sftp.RealPath(".")
	if err != nil {
		client.Log.Linef("working directory of %s: %v", line.Host, err)
		return 1
	}
	s := &shell{
		remote: remote{p.sftp}, dir: home, out: say.To(streams.Stdout, ""), log: client.Log,
		recursive: line.recursive, preserve: line.preserve,
	}
	if line.path != "" {
		name := s.remotePath(homePath(line.path))
		if !isDir(s.remote, name) {
			// sftp host:file is a download and nothing else.
			return s.once("get", name)
		}
		s.dir = name
	}
	return s.loop(input, batch)
}

// shell carries out the commands of one connection.
type shell struct {
	remote remote
	// dir is the remote working directory, localDir the local one, empty for the process's own.
	dir, localDir       string
	out, log            *say.Printer
	recursive, preserve bool
}

func (s *shell) once(words ...string) int {
	if err := s.do(words); err != nil {
		s.log.Linef("%v", err)
		return 1
	}
	return 0
}

// loop reads commands until the end of input. Only in a batch does a failure end it.
func (s *shell) loop(input io.Reader, batch bool) int {
	file, isFile := input.(*os.File)
	interactive := !batch && isFile && term.IsTerminal(int(file.Fd()))
	lines := bufio.NewScanner(input)
	for {
		if interactive {
			s.out.Printf("sftp> ")
		}
		if !lines.Scan() {
			break
		}
		text := strings.TrimSpace(lines.Text())
		if !interactive {
			if quiet := strings.HasPrefix(strings.TrimPrefix(text, "-"), "@"); !quiet && text != "" {
				s.out.Linef("sftp> %s", text)
			}
		}
		// "-" means that a failure does not matter, "@" that the command is not shown.
		tolerated := strings.HasPrefix(text, "-")
		text = strings.TrimLeft(text, "-@")
		words, err := splitLine(text)
		if err == nil && len(words) > 0 {
			if err = s.do(words); errors.Is(err, errBye) {
				return 0
			}
		}
		if err != nil {
			s.log.Linef("%v", err)
			if batch && !tolerated {
				return 1
			}
		}
	}
	if err := lines.Err(); err != nil {
		s.log.Linef("read commands: %v", err)
		return 1
	}
	return 0
}

// splitLine splits a command at blanks that are neither quoted nor escaped. A word that begins with # starts a comment.
func splitLine(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	quote := byte(0)
	end := func() {
		if inWord {
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && quote != '\'':
			i++
			word.WriteByte(text[i])
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t':
			end()
		case c == '#' && !inWord:
			return words, nil
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is not closed: %s", text)
	}
	end()
	return words, nil
}

func (s *shell) remotePath(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(s.dir, name)
}

func (s *shell) localPath(name string) string {
	if filepath.IsAbs(name) || s.localDir == "" {
		return name
	}
	return filepath.Join(s.localDir, name)
}
