// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"strings"
	"time"

	"timesync/examples/internal/program"
	"timesync/link"
)

// recordings are those of a process. The zero value records nothing.
type recordings struct {
	folder string
	all    []*program.Recording
}

// add records a link into a file of its own, whose name says what it is and when it began.
func (r *recordings) add(l *link.Link, name string) error {
	began := time.Now().UTC().Format("20060102T150405Z")
	one, err := program.RecordIn(l, r.folder, strings.ReplaceAll(name, " ", "-")+"-"+began+"-*.tsr")
	r.all = append(r.all, one)
	return err
}

// close writes what is left.
func (r *recordings) close() (err error) {
	for _, one := range r.all {
		err = errors.Join(err, one.Close())
	}
	return err
}
