// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// store keeps what has arrived of a file: NAME.part has the bytes, and NAME.have says which
// of them are there, a byte for each chunk after what the file is. Both are written before a
// chunk is acknowledged, so a receiver that dies loses nothing that was. When all is there
// and the checksum is right, NAME.part becomes NAME: nobody ever sees half a file there.
type store struct {
	pieces
	path       string // of the finished file; empty: nothing is kept
	part, have *os.File
}

// reserved are names that Windows keeps for devices, with any extension.
var reserved = regexp.MustCompile(
	`(?i)^(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])( *\.|$)`)

// checkName refuses names that are no file in the folder on some system, those that are hidden,
// and those that store uses itself. A name comes from the sender, so it is always shown escaped:
// it could hold what a terminal takes for commands.
func checkName(name string) error {
	why := ""
	switch {
	case name == "" || name != filepath.Base(name) || strings.ContainsAny(name, `/\:*?"<>|`):
		why = "which is no plain name"
	case len(name) > 200:
		why = "which is too long"
	case name[0] == '.':
		why = "which is hidden"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		why = "whose end Windows drops"
	case reserved.MatchString(name):
		why = "which is a device of Windows"
	case strings.HasSuffix(name, ".part") || strings.HasSuffix(name, ".have"):
		why = "which is kept for files that are not done"
	case strings.ContainsFunc(name, cannotBePrinted):
		why = "which cannot be printed"
	default:
		return nil
	}
	return fmt.Errorf("the sender wants to write to %q, %s", name, why)
}

func cannotBePrinted(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// openStore opens or begins the file that is offered.
func openStore(folder string, o offer) (s *store, err error) {
	s = &store{pieces: newPieces(o)}
	if o.name == "" {
		return s, nil
	}
	if err := checkName(o.name); err != nil {
		return nil, err
	}
	s.path = filepath.Join(folder, o.name)
	if _, err := os.Lstat(s.path); err == nil {
		return nil, fmt.Errorf("%q exists; remove it or choose another folder", s.path)
	}
	open := func(suffix string) (*os.File, error) {
		return os.OpenFile(s.path+suffix, os.O_RDWR|os.O_CREATE, 0o666)
	}
	if s.part, err = open(".part"); err == nil {
		s.have, err = open(".have")
	}
	if err == nil {
		err = s.resume()
	}
	return s, err
}

// resume finds what an earlier run has written of the same file, or begins.
func (s *store) resume() error {
	header := s.message()[1:][:sumEnd]
	written, err := io.ReadAll(s.have)
	if err != nil {
		return err
	}
	there, ours := bytes.CutPrefix(written, header)
	if !ours {
		// Another file had that name.
		err := errors.Join(s.part.Truncate(0), s.have.Truncate(0))
		if err == nil {
			_, err = s.have.WriteAt(header, 0)
		}
		return err
	}
	for i, there := range there[:min(len(there), len(s.had))] {
		if there == 1 {
			s.add(i)
		}
	}
	return nil
}

// write takes a chunk.
func (s *store) write(chunk uint32, b []byte) error {
	if uint64(chunk) >= uint64(len(s.had)) || len(b) != s.length(chunk) {
		return errMalformed
	}
	if s.had[chunk] {
		return nil
	}
	if s.path != "" {
		_, err := s.part.WriteAt(b, int64(chunk)*chunkLen)
		if err == nil {
			_, err = s.have.WriteAt([]byte{1}, sumEnd+int64(chunk))
		}
		if err != nil {
			return s.kept(err)
		}
	}
	s.add(int(chunk))
	return nil
}

// kept adds to an error what there is.
func (s *store) kept(err error) error {
	if s == nil || s.path == "" {
		return err
	}
	return fmt.Errorf("%w; %d of %d chunks are kept in %q: run both ends again to go on",
		err, len(s.had)-s.left, len(s.had), s.path+".part")
}

// finish checks all of it and gives it its name.
func (s *store) finish() error {
	if s.path == "" {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(s.part, 0, int64(s.size))); err != nil {
		return s.kept(err)
	}
	if [sha256.Size]byte(sum.Sum(nil)) != s.sum {
		err := errors.New("wrong checksum, partial file removed: " +
			"the file changed while it was sent, or the disk is bad")
		return errors.Join(err, s.close(), os.Remove(s.path+".have"), os.Remove(s.path+".part"))
	}
	if err := errors.Join(s.part.Sync(), s.close()); err != nil {
		return s.kept(err)
	}
	// Link fails if something has that name by now; a rename would replace it.
	err := os.Link(s.path+".part", s.path)
	if _, free := os.Lstat(s.path); err != nil && free != nil {
		// The disk may know no links.
		err = os.Rename(s.path+".part", s.path)
	}
	if err != nil {
		return s.kept(err)
	}
	os.Remove(s.path + ".part")
	folder, err := os.Open(filepath.Dir(s.path))
	_ = folder.Sync() // so that the new name outlives a loss of power; Windows cannot
	return errors.Join(os.Remove(s.path+".have"), err, folder.Close())
}

func (s *store) close() error {
	if s == nil || s.path == "" {
		return nil
	}
	return errors.Join(s.part.Close(), s.have.Close())
}
