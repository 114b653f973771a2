// SPDX-License-Identifier: BSD-3-Clause

// Transfer sends a file over UDP beside a game, which hardly notices. Both ends print once a
// second how much has come, how fast, and how long the game's datagrams were under way.
//
// The transfer fills the link while that is free, keeps the queue before it at a few milliseconds,
// and leaves the link to others. Both ends also send 60 small datagrams a second, the game. All
// are sealed (examples/seal). The congestion control is examples/transfer/ledbat; the one-way
// delays that it needs come with the datagrams, because both ends know each other's clock
// (timesync/link).
//
//	go run ./examples/transfer -listen :9000 -key HEX -in FOLDER
//	go run ./examples/transfer -dial HOST:9000 -key HEX FILE
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"timesync/clock"
	"timesync/examples/seal"
	"timesync/internal/program"
)

const usage = `usage: transfer -listen ADDR -key KEY [-in FOLDER]   receive a file, and end
       transfer -dial ADDR -key KEY FILE             send it
       transfer -dial ADDR -key KEY -mb N            send N MB, which the receiver throws away

To resume an interrupted transfer, start both ends again.`

type config struct {
	listen, dial, folder, cc, file, digits string
	mb                                     int
	key                                    [32]byte
}

func main() { program.Main(run) }

var run = program.New("transfer", usage, (*config).flags, (*config).check, transfer)

func (c *config) flags(f *flag.FlagSet) {
	f.StringVar(&c.listen, "listen", "", "receive at this `address`, such as :9000")
	f.StringVar(&c.dial, "dial", "", "send to the receiver at this `address`")
	program.KeyFlag(f, &c.digits, "both ends share")
	f.StringVar(&c.folder, "in", ".", "`folder` for what arrives")
	f.StringVar(&c.cc, "cc", "ledbat", "congestion `control`: ledbat or, for comparison, none")
	f.IntVar(&c.mb, "mb", 0, "send this many `MB` of test data instead of a file")
}

// check refuses what cannot be meant, and reads the key.
func (c *config) check(f *flag.FlagSet) error {
	files := 1
	if c.listen != "" {
		files = 0
	}
	c.file = f.Arg(0)
	switch err := program.Arguments(f, files); {
	case (c.listen == "") == (c.dial == ""):
		return errors.New("-listen or -dial: one of the two")
	case c.cc != "ledbat" && c.cc != "none":
		return fmt.Errorf("-cc %q: must be ledbat or none", c.cc)
	case err != nil:
		return err
	case c.dial != "" && (c.mb > 0) == (c.file != ""), c.mb < 0, c.mb > maxSize/1e6:
		return errors.New("-dial: needs one file, or -mb from 1 to 100000")
	}
	var err error
	c.key, err = program.Key(c.digits)
	return err
}

// transfer sends or receives.
func transfer(ctx context.Context, c config, stdout, _ io.Writer) error {
	p := &peer{out: stdout}
	if c.listen != "" {
		r := &receiver{folder: c.folder}
		p.end, p.role = seal.New(c.key, 1), r
		defer func() { r.store.close() }() // what was written is there
	} else {
		offer, file, err := open(c)
		defer file.Close() // of nil, too
		if err != nil {
			return err
		}
		s := newSender(offer, file, clock.Now())
		s.greedy = c.cc == "none"
		p.end, p.role = seal.New(c.key, 0), s
	}
	conn, to, err := program.Open(c.listen, c.dial)
	if err != nil {
		return err
	}
	p.Socket = program.NewSocket(conn, program.Machine)
	p.dial = to
	if c.listen != "" {
		fmt.Fprintf(stdout, "listening at %v\n", conn.LocalAddr())
	}
	return p.run(ctx)
}

// open opens what is to be sent, and computes its checksum. The file is nil for test data.
func open(c config) (o offer, file *os.File, err error) {
	if c.mb > 0 {
		o.size = uint64(c.mb) * 1e6
		return o, nil, nil
	}
	if file, err = os.Open(c.file); err != nil {
		return o, nil, err
	}
	if info, _ := file.Stat(); !info.Mode().IsRegular() { // an open file has one
		return o, file, fmt.Errorf("%s is no regular file", c.file)
	}
	sum := sha256.New()
	n, err := io.Copy(sum, file)
	if n > maxSize {
		err = fmt.Errorf("%s is longer than %d bytes", c.file, int64(maxSize))
	}
	o = offer{uint64(n), [sha256.Size]byte(sum.Sum(nil)), filepath.Base(c.file)}
	return o, file, cmp.Or(err, checkName(o.name))
}
