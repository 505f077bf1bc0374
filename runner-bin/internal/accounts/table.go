// SPDX-License-Identifier: Apache-2.0

package accounts

import (
	"slices"
	"strconv"
	"strings"
)

// Columns of passwd, group and shadow, where they differ from 0 (the name) and 1 (the password).
const (
	passwdUID, passwdGID, passwdHome, passwdShell, passwdColumns = 2, 3, 5, 6, 7
	groupGID, groupMembers, groupColumns                         = 2, 3, 4
	shadowChanged, shadowExpires, shadowColumns                  = 2, 7, 9
)

// table is one colon-separated database. Lines that are no entries (comments, NIS markers, damage) are kept as they are.
type table struct {
	rows    [][]string
	columns int
}

func parse(text string, columns int) *table {
	t := &table{columns: columns}
	if text == "" {
		return t
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		t.rows = append(t.rows, strings.Split(line, ":"))
	}
	return t
}

func (t *table) String() string {
	var b strings.Builder
	for _, row := range t.rows {
		b.WriteString(strings.Join(row, ":"))
		b.WriteByte('\n')
	}
	return b.String()
}

// entry reports whether a row is a usable entry.
func (t *table) entry(row []string) bool {
	return len(row) == t.columns && row[0] != "" && !strings.ContainsAny(row[0][:1], "#+-")
}

// named returns the first entry of that name, nil when there is none. The row may be written to.
func (t *table) named(name string) []string {
	for _, row := range t.rows {
		if t.entry(row) && row[0] == name {
			return row
		}
	}
	return nil
}

// numbered returns the first entry with that number in the third column, nil when there is none.
func (t *table) numbered(id int) []string {
	for _, row := range t.rows {
		if !t.entry(row) {
			continue
		}
		if n, err := strconv.Atoi(row[2]); err == nil && n == id {
			return row
		}
	}
	return nil
}

func (t *table) add(fields ...string) []string {
	// A NIS marker must stay last: everything below it is read by no one.
	at := len(t.rows)
	for at > 0 && strings.HasPrefix(t.rows[at-1][0], "+") {
		at--
	}
	t.rows = slices.Insert(t.rows, at, fields)
	return fields
}

func (t *table) remove(name string) {
	t.rows = slices.DeleteFunc(t.rows, func(row []string) bool { return t.entry(row) && row[0] == name })
}

// member adds a user to a group row once.
func member(row []string, user string) {
	var users []string
	if row[groupMembers] != "" {
		users = strings.Split(row[groupMembers], ",")
	}
	if !slices.Contains(users, user) {
		row[groupMembers] = strings.Join(append(users, user), ",")
	}
}

// renameMember replaces a user name in every group.
func (t *table) renameMember(old, name string) {
	for _, row := range t.rows {
		if !t.entry(row) || row[groupMembers] == "" {
			continue
		}
		users := strings.Split(row[groupMembers], ",")
		if i := slices.Index(users, old); i >= 0 {
			users[i] = name
			row[groupMembers] = strings.Join(users, ",")
		}
	}
}
