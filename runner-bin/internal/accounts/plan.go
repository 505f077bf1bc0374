// SPDX-License-Identifier: Apache-2.0

// Package accounts makes the session's user known to a container image by editing the text of passwd, group and
// shadow, so that an image needs no user tools for it.
package accounts

import (
	"fmt"
	"strconv"
	"strings"
)

// Name is the name of the session's user in every container.
const Name = "work"

// readersGID is the group that the reference gives to freshly made users; images give it read access to their files.
const readersGID, readersName = 1002, "grpread"

// Files holds the text of the three databases; empty text means that the file is missing.
type Files struct {
	Passwd, Group, Shadow string
}

// Want is the identity that the databases shall describe.
type Want struct {
	UID, GID int
	// Extra are the supplementary groups that the agent asked for.
	Extra []int
	// Home and Shell of the user.
	Home, Shell string
}

// Plan returns the databases with the wanted identity in them, the name that its user ID has then, and remarks on what
// could not be done. It is pure, and planning again on its own result changes nothing.
//
// A user who already has the ID is renamed, an older user of our name is renumbered, and nobody is left locked, because
// a locked account refuses key logins too.
func Plan(have Files, want Want) (files Files, user string, remarks []string) {
	passwd := parse(have.Passwd, passwdColumns)
	group := parse(have.Group, groupColumns)
	shadow := parse(have.Shadow, shadowColumns)
	if len(passwd.rows) == 0 {
		passwd.add("root", "x", "0", "0", "root", "/root", orSh(want.Shell))
	}
	if len(group.rows) == 0 {
		group.add("root", "x", "0", "")
	}
	if len(shadow.rows) == 0 {
		shadow.add(shadowRow("root")...)
	}

	if want.UID == 0 {
		ensureGroup(group, readersName, readersGID)
		user = "root"
		if row := passwd.numbered(0); row != nil {
			user = row[0]
		} else {
			passwd.add(user, "x", "0", "0", "root", "/root", orSh(want.Shell))
		}
		return Files{passwd.String(), group.String(), shadow.String()}, user, nil
	}

	planGroup(group, want.GID)
	if row := passwd.numbered(want.UID); row != nil {
		claim(passwd, group, shadow, row, want)
	} else {
		create(passwd, group, want)
	}
	unlock(passwd, shadow)
	remarks = addGroups(group, want.Extra)
	return Files{passwd.String(), group.String(), shadow.String()}, Name, remarks
}

// planGroup makes sure that the main group has a name.
func planGroup(group *table, gid int) {
	if group.numbered(gid) != nil {
		return
	}
	if row := group.named(Name); row != nil {
		row[groupGID] = strconv.Itoa(gid)
		return
	}
	group.add(Name, "x", strconv.Itoa(gid), "")
}

// claim takes over the image's own user of the wanted ID.
func claim(passwd, group, shadow *table, row []string, want Want) {
	if old := row[0]; old != Name {
		// Somebody else may have our name: the owner of the ID gets it, for two users of one name are worse.
		passwd.remove(Name)
		row[0] = Name
		group.renameMember(old, Name)
		if s := shadow.named(old); s != nil {
			shadow.remove(Name)
			s[0] = Name
		}
	}
	describe(row, want)
	joinNamed(group, "shadow")
}

// create adds the user, or renumbers an older one of our name.
func create(passwd, group *table, want Want) {
	row := passwd.named(Name)
	if row == nil {
		row = passwd.add(Name, "x", "", "", "", "", "")
	}
	describe(row, want)
	joinNamed(group, "shadow")
	ensureGroup(group, readersName, readersGID)
	joinNamed(group, readersName)
}

func describe(row []string, want Want) {
	row[passwdUID], row[passwdGID] = strconv.Itoa(want.UID), strconv.Itoa(want.GID)
	row[passwdHome], row[passwdShell] = want.Home, orSh(want.Shell)
}

// unlock gives the user a shadow entry that has no valid password, is not locked and has not expired.
func unlock(passwd, shadow *table) {
	account := passwd.named(Name)
	if account == nil {
		return
	}
	if strings.HasPrefix(account[1], "!") || account[1] == "*" {
		account[1] = "x"
	}
	if account[1] != "x" {
		return // the password, or its absence, is the image's own doing
	}
	row := shadow.named(Name)
	if row == nil {
		shadow.add(shadowRow(Name)...)
		return
	}
	if strings.HasPrefix(row[1], "!") || row[1] == "" {
		row[1] = "*"
	}
	row[shadowExpires] = ""
	if row[shadowChanged] == "0" { // "must be changed at the next login"
		row[shadowChanged] = ""
	}
}

func addGroups(group *table, gids []int) (remarks []string) {
	for _, gid := range gids {
		row := group.numbered(gid)
		if row == nil {
			name := "group" + strconv.Itoa(gid)
			if !ensureGroup(group, name, gid) {
				remarks = append(remarks, fmt.Sprintf("group %d gets no name: %s is taken", gid, name))
				continue
			}
			row = group.named(name)
		}
		member(row, Name)
	}
	return remarks
}

// ensureGroup adds a group unless its name or its number is taken, and reports whether the pair exists now.
func ensureGroup(group *table, name string, gid int) bool {
	byName, byID := group.named(name), group.numbered(gid)
	if byName == nil && byID == nil {
		group.add(name, "x", strconv.Itoa(gid), "")
		return true
	}
	return byName != nil && byID != nil && byID[0] == name
}

func joinNamed(group *table, name string) {
	if row := group.named(name); row != nil {
		member(row, Name)
	}
}

func shadowRow(name string) []string {
	return []string{name, "*", "", "0", "99999", "7", "", "", ""}
}

// orSh names a shell for the passwd entry even when the image has none: an empty field means the same.
func orSh(shell string) string {
	if shell == "" {
		return "/bin/sh"
	}
	return shell
}
