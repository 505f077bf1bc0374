// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"agentd/runner-bin/internal/say"
	"agentd/runner-bin/internal/sshclient"
)

// errSCPUsage is shown for command lines that make no sense.
var errSCPUsage = errors.New("usage: scp [-pqrv] [-F file] [-i key] [-o option] [-P port] source ... target; [user@]host:path names a remote file")

// scpLine is a parsed scp command line.
type scpLine struct {
	sshclient.Options
	recursive, preserve bool
	// sink and source are the server sides, directory says that the sink's target must be one.
	sink, source, directory bool
	names                   []string
}

func parseSCP(args []string) (scpLine, error) {
	var l scpLine
	names, err := sshclient.ParseArgs(args, "cDFiJloPSX", l.set)
	if err != nil {
		return l, err
	}
	if l.names = names; len(names) == 0 || (!l.sink && !l.source && len(names) < 2) {
		return l, errSCPUsage
	}
	return l, nil
}

func (l *scpLine) set(option byte, value string) error {
	switch option {
	case 'r':
		l.recursive = true
	case 'p':
		l.preserve = true
	case 't':
		l.sink = true
	case 'f':
		l.source = true
	case 'd':
		l.directory = true
	case 'P':
		return l.Set('p', value)
	case '3', 'O', 's', 'B', 'l', 'D', 'R', 'T', 'X':
		// Remote copies always go through here, over SFTP; the rest is tuning.
	default:
		return l.Set(option, value)
	}
	return nil
}

// SCP is the scp command of the process.
func SCP(args []string) int {
	return RunSCP(sshclient.New(say.To(os.Stderr, "scp: ")), args, processStreams())
}

// RunSCP carries out an scp command line and returns the exit code: 0, or 1 when something was not copied.
func RunSCP(client *sshclient.Client, args []string, streams Streams) int {
	line, err := parseSCP(args)
	if err != nil {
		client.Log.Linef("%v", err)
		return 1
	}
	switch {
	case line.sink:
		return runSink(&line, streams)
	case line.source:
		return runSource(&line, streams)
	}
	s := &scp{line: &line, client: client, peers: map[string]*peer{}}
	defer s.close()
	if err := s.run(); err != nil {
		client.Log.Linef("%v", err)
		return 1
	}
	if s.failed {
		return 1
	}
	return 0
}

// scp is one run with its connections, one for each host.
type scp struct {
	line   *scpLine
	client *sshclient.Client
	peers  map[string]*peer
	failed bool
}

func (s *scp) close() {
	for _, p := range s.peers {
		p.close()
	}
}

func (s *scp) run() error {
	last := len(s.line.names) - 1
	to, target, err := s.side(s.line.names[last])
	if err != nil {
		return err
	}
	into := isDir(to, target)
	if !into && (last > 1 || strings.HasSuffix(target, "/")) {
		return fmt.Errorf("%s: not a directory", s.line.names[last])
	}
	for _, name := range s.line.names[:last] {
		from, source, err := s.side(name)
		if err != nil {
			return err
		}
		sources, err := expand(from, source)
		if err != nil {
			s.fail(name, err)
			continue
		}
		if len(sources) > 1 && !into {
			return fmt.Errorf("%s: not a directory", s.line.names[last])
		}
		c := &copier{from: from, to: to, recursive: s.line.recursive, preserve: s.line.preserve, fail: s.fail}
		for _, source := range sources {
			if into {
				c.copy(source, below(target, source))
			} else {
				c.copy(source, target)
			}
		}
	}
	return nil
}

func (s *scp) fail(name string, err error) {
	s.failed = true
	s.client.Log.Linef("%s: %v", name, err)
}

// side returns where a name of the command line lies.
func (s *scp) side(name string) (side, string, error) {
	host, file, isRemote := splitRemote(name)
	if !isRemote {
		return local{}, file, nil
	}
	p := s.peers[host]
	if p == nil {
		options := s.line.Options
		if err := options.SetTarget(host); err != nil {
			return nil, "", err
		}
		var err error
		if p, err = connect(s.client, options); err != nil {
			return nil, "", err
		}
		s.peers[host] = p
	}
	return remote{p.sftp}, homePath(file), nil
}

// splitRemote splits `[user@]host:path` and `scp://[user@]host[:port]/path`. A colon after a slash belongs to a local
// name.
func splitRemote(name string) (host, file string, isRemote bool) {
	if rest, ok := strings.CutPrefix(name, "scp://"); ok {
		host, file, _ = strings.Cut(rest, "/")
		return "ssh://" + host, file, true
	}
	open := strings.IndexByte(name, '[')
	if open == 0 || (open > 0 && name[open-1] == '@') {
		if end := strings.Index(name, "]:"); end > 0 && !strings.Contains(name[:end], "/") {
			return name[:end+1], name[end+2:], true
		}
		return "", name, false
	}
	colon := strings.IndexByte(name, ':')
	if colon <= 0 || strings.Contains(name[:colon], "/") {
		return "", name, false
	}
	return name[:colon], name[colon+1:], true
}

// homePath turns a remote name relative to the home directory into what the server, which starts there, understands.
func homePath(file string) string {
	if file == "~" {
		return "."
	}
	if file = strings.TrimPrefix(file, "~/"); file == "" {
		return "."
	}
	return file
}
