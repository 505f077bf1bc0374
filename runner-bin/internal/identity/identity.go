// SPDX-License-Identifier: Apache-2.0

// Package identity turns a user specification into numbers and makes the process assume them; it is what su-exec does.
package identity

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Identity is who a process runs as.
type Identity struct {
	UID, GID int
	// Groups is the complete supplementary list, in the order asked for.
	Groups []int
	// Home is the home directory of the user database, "/" for users that are not in it.
	Home string
}

// Database is the text of the user and group files.
type Database struct {
	Passwd, Group string
}

// ReadDatabase reads passwd and group of a directory; what is missing counts as empty.
func ReadDatabase(dir string) Database {
	passwd, _ := os.ReadFile(dir + "/passwd")
	group, _ := os.ReadFile(dir + "/group")
	return Database{Passwd: string(passwd), Group: string(group)}
}

// User is one entry of the user database.
type User struct {
	Name        string
	UID, GID    int
	Home, Shell string
}

// UserByID finds the first user with that number.
func (d Database) UserByID(uid int) (User, bool) {
	return d.user(func(u User) bool { return u.UID == uid })
}

// UserByName finds the first user of that name.
func (d Database) UserByName(name string) (User, bool) {
	return d.user(func(u User) bool { return u.Name == name })
}

func (d Database) user(match func(User) bool) (User, bool) {
	for line := range strings.SplitSeq(d.Passwd, "\n") {
		fields := strings.Split(line, ":")
		if len(fields) != 7 || fields[0] == "" {
			continue
		}
		uid, errU := strconv.Atoi(fields[2])
		gid, errG := strconv.Atoi(fields[3])
		if errU != nil || errG != nil {
			continue
		}
		if u := (User{Name: fields[0], UID: uid, GID: gid, Home: fields[5], Shell: fields[6]}); match(u) {
			return u, true
		}
	}
	return User{}, false
}

// groups calls yield with every group until it returns false.
func (d Database) groups(yield func(name string, gid int, members []string) bool) {
	for line := range strings.SplitSeq(d.Group, "\n") {
		fields := strings.Split(line, ":")
		if len(fields) != 4 || fields[0] == "" {
			continue
		}
		gid, err := strconv.Atoi(fields[2])
		if err != nil {
			continue
		}
		if !yield(fields[0], gid, strings.Split(fields[3], ",")) {
			return
		}
	}
}

// Resolve reads a specification `[user][:group[,group…]]`, names or numbers. With a group part, the first group becomes
// the main one and all of them the supplementary ones; without, both come from the database. Empty list items are
// ignored. current says what an absent user means.
func Resolve(spec string, db Database, current Identity) (Identity, error) {
	userPart, groupPart, _ := strings.Cut(spec, ":")
	id := Identity{UID: current.UID, GID: current.GID, Home: "/"}
	user, known := db.UserByID(current.UID)
	if userPart != "" {
		user, known = db.UserByName(userPart)
		if !known {
			uid, err := number(userPart)
			if err != nil {
				return Identity{}, fmt.Errorf("user %q is neither in the user database nor a number", userPart)
			}
			id.UID = uid
			user, known = db.UserByID(uid)
		}
	}
	if known {
		id.UID, id.GID = user.UID, user.GID
		if user.Home != "" {
			id.Home = user.Home
		}
	}

	for item := range strings.SplitSeq(groupPart, ",") {
		if item == "" {
			continue
		}
		gid, err := db.groupID(item)
		if err != nil {
			return Identity{}, err
		}
		id.Groups = append(id.Groups, gid)
	}
	if len(id.Groups) > 0 {
		id.GID = id.Groups[0]
		return id, nil
	}
	id.Groups = []int{id.GID}
	if known {
		db.groups(func(_ string, gid int, members []string) bool {
			if slices.Contains(members, user.Name) && !slices.Contains(id.Groups, gid) {
				id.Groups = append(id.Groups, gid)
			}
			return true
		})
	}
	return id, nil
}

func (d Database) groupID(name string) (int, error) {
	found := -1
	d.groups(func(n string, gid int, _ []string) bool {
		if n == name {
			found = gid
		}
		return found < 0
	})
	if found >= 0 {
		return found, nil
	}
	gid, err := number(name)
	if err != nil {
		return 0, fmt.Errorf("group %q is neither in the group database nor a number", name)
	}
	return gid, nil
}

// number reads a user or group number; the highest value means "no change" to the kernel and is refused.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, err
	}
	if n == 1<<32-1 {
		return 0, errors.New("reserved number")
	}
	return int(n), nil
}

// Current returns who the process is.
func Current() Identity {
	groups, _ := os.Getgroups()
	return Identity{UID: os.Getuid(), GID: os.Getgid(), Groups: groups, Home: "/"}
}

// Assume makes the whole process this identity, for good.
func (id Identity) Assume() error {
	if err := syscall.Setgroups(id.Groups); err != nil {
		return fmt.Errorf("set groups %v: %w", id.Groups, err)
	}
	if err := syscall.Setgid(id.GID); err != nil {
		return fmt.Errorf("set group %d: %w", id.GID, err)
	}
	if err := syscall.Setuid(id.UID); err != nil {
		return fmt.Errorf("set user %d: %w", id.UID, err)
	}
	return nil
}
