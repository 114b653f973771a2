// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"errors"
	"os"

	"timesync/link"
	"timesync/record"
)

// Record records a link to a new file in folder, which it creates if necessary. In the file's
// name, a number replaces the star of pattern. If folder is empty, it records nothing. Call end to
// write what is left; it is never nil.
func Record(l *link.Link, folder, pattern string) (end func() error, err error) {
	none := func() error { return nil }
	if folder == "" {
		return none, nil
	}
	_ = os.MkdirAll(folder, 0o777) // if it fails, so does CreateTemp
	file, err := os.CreateTemp(folder, pattern)
	if err != nil {
		return none, err
	}
	recorder := record.New(file)
	l.Record(recorder)
	return func() error { return errors.Join(recorder.Close(), file.Close()) }, nil
}
