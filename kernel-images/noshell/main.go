// SPDX-License-Identifier: Apache-2.0

// Command noshell is the one program of an image without a shell. Tests start it as a kernel's command and see from outside
// what agentd made of its environment, its end and its signals.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

const usage = `usage: noshell COMMAND
  wait          until SIGTERM or SIGINT, then exit with 0
  env           print the environment, one variable a line
  args ARG…     print the arguments, one a line
  id            print user, group and further groups as numbers
  exit CODE     exit with the code
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		args = []string{"wait"}
	}
	switch args[0] {
	case "wait":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
		<-stop
		return 0
	case "env":
		fmt.Fprintln(stdout, strings.Join(os.Environ(), "\n"))
		return 0
	case "args":
		fmt.Fprintln(stdout, strings.Join(args[1:], "\n"))
		return 0
	case "id":
		groups, err := os.Getgroups()
		if err != nil {
			fmt.Fprintln(stderr, "noshell:", err)
			return 1
		}
		fmt.Fprintf(stdout, "uid=%d gid=%d groups=%v\n", os.Getuid(), os.Getgid(), groups)
		return 0
	case "exit":
		if len(args) == 2 {
			if code, err := strconv.ParseUint(args[1], 10, 8); err == nil {
				return int(code)
			}
		}
	}
	fmt.Fprint(stderr, usage)
	return 2
}
