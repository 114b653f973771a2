// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"errors"
	"os"

	"timesync/link"
	"timesync/record"
)

// Record records a link into a new file of a folder, which it makes if need be; the name of the file has
// a number for the star of the pattern. Without a folder it records nothing. end writes what is left, and
// may be called in any case.
func Record(l *link.Link, folder, pattern string) (end func() error, err error) {
	none := func() error { return nil }
	if folder == "" {
		return none, nil
	}
	_ = os.MkdirAll(folder, 0o777) // without it no file can be made
	file, err := os.CreateTemp(folder, pattern)
	if err != nil {
		return none, err
	}
	recorder := record.New(file)
	l.Record(recorder)
	return func() error { return errors.Join(recorder.Close(), file.Close()) }, nil
}
